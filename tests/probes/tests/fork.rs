//! A forked child and its parent never use the same nonce: it comes from the operating system each time, and no state of
//! the process, which a fork doubles, has a part in it.
//!
//! Without a test harness, since only a process of one thread may fork and go on.

use cachekit_core::entry::{Header, Kind, Suite};
use cachekit_core::{SealContext, Sealer};
use cachekit_secure::{Keyring, MasterKey, Secure};
use fork::{Fork, fork, waitpid};
use std::collections::HashSet;
use std::fs;
use std::process::exit;

const EACH: usize = 1_000;
const NONCE: usize = 24;

fn nonces(sealer: &dyn Sealer) -> Vec<u8> {
    let header = Header {
        suite: Suite::Sealed,
        flags: 0,
        kind: Kind::Value,
        format: 0,
        schema_version: 0,
        written_at: 0,
        fresh_until: u64::MAX,
        expires_at: u64::MAX,
    };
    let context = SealContext { namespace: "users", stored_key: "users:42", tenant: "" };
    let mut nonces = Vec::with_capacity(EACH * NONCE);
    for _ in 0..EACH {
        let entry = sealer.seal(context, header, vec![0; sealer.headroom()]).expect("randomness");
        nonces.extend_from_slice(&entry[52..76]);
    }
    nonces
}

fn main() {
    let sealer = Secure::new(Keyring::new(MasterKey::from_bytes([7; 32]))).sealer();
    // Whatever state there could be exists before the fork.
    let before = nonces(&*sealer);
    let path = std::env::temp_dir().join(format!("cachekit-probe-fork-{}", std::process::id()));
    let child = match fork().expect("a process more") {
        Fork::Child => {
            let written = fs::write(&path, nonces(&*sealer));
            exit(i32::from(written.is_err()));
        }
        Fork::Parent(child) => child,
    };
    let parents = nonces(&*sealer);
    let status = waitpid(child).expect("the child");
    assert_eq!(status, 0, "the child failed");
    let childs = fs::read(&path).expect("what the child wrote");
    fs::remove_file(&path).expect("a file of ours");
    let all = [before, parents, childs].concat();
    let unique: HashSet<_> = all.chunks_exact(NONCE).collect();
    assert_eq!(unique.len(), 3 * EACH, "a nonce was used twice");
    println!("fork: {} nonces of parent and child, none twice", unique.len());
}
