//! No block of the heap is given back with a key in it.
//!
//! An allocator looks through every block that is freed. A control makes sure that it finds what is there. It says
//! nothing of copies on the stack and in registers, and neither do we.
//!
//! Without a test harness, since that has threads and memory of its own.

use cachekit_core::entry::{Header, Kind, Suite};
use cachekit_core::{Acceptance, SealContext, Sealer, Tier};
use cachekit_secure::{Keyring, MasterKey, Secure};
use hkdf::Hkdf;
use sha2::Sha256;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What must not be found: the master keys as bytes and as text, and everything that is derived from them.
const NEEDLES: usize = 12;

struct Spy {
    armed: AtomicBool,
    needles: OnceLock<[Vec<u8>; NEEDLES]>,
    found: [AtomicUsize; NEEDLES],
    freed: AtomicUsize,
}

#[global_allocator]
static SPY: Spy = Spy {
    armed: AtomicBool::new(false),
    needles: OnceLock::new(),
    found: [const { AtomicUsize::new(0) }; NEEDLES],
    freed: AtomicUsize::new(0),
};

impl Spy {
    fn look_through(&self, block: &[u8]) {
        let Some(needles) = self.needles.get() else { return };
        self.freed.fetch_add(1, Ordering::Relaxed);
        for (needle, found) in needles.iter().zip(&self.found) {
            // 16 bytes of a key are a key that is not gone.
            if block.windows(16).any(|window| window == &needle[..16] || window == &needle[needle.len() - 16..]) {
                found.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn found(&self) -> Vec<usize> {
        self.found.iter().map(|found| found.swap(0, Ordering::Relaxed)).collect()
    }
}

#[allow(unsafe_code, reason = "an allocator is what sees blocks at the moment they are freed")]
// SAFETY: both methods hand on to the system's allocator, with what they were given.
unsafe impl GlobalAlloc for Spy {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that every byte of a block may be read when it is freed, written or not; and so that what is found
        // was put there by the owner of this block, not by an earlier one.
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.armed.load(Ordering::Relaxed) {
            // SAFETY: the block is this long, was zeroed when it was allocated, and is nobody else's any more.
            self.look_through(unsafe { std::slice::from_raw_parts(block, layout.size()) });
        }
        // SAFETY: the caller keeps the contract of `dealloc`, and the block came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

const FIRST: [u8; 32] = *b"\xd1first master key of this probe.";
const SECOND: [u8; 32] = *b"\xd2second: it is replaced by reloa";
const THIRD: [u8; 32] = *b"\xd3third, which comes by variable.";
const CONTEXT: SealContext<'static> = SealContext { namespace: "users", stored_key: "users:42", tenant: "acme" };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The pseudorandom key of a master key, its entry key for the context, and its key of names.
fn derived(master: &[u8]) -> [Vec<u8>; 3] {
    let (prk, hkdf) = Hkdf::<Sha256>::extract(Some(b"cachekit-secure/1"), master);
    let (mut entry, mut names) = (vec![0; 32], vec![0; 32]);
    hkdf.expand(b"cachekit-secure/1 entry\0\0\0\x04acme\0\0\0\x05users", &mut entry).expect("32 bytes");
    hkdf.expand(b"cachekit-secure/1 names", &mut names).expect("32 bytes");
    [prk.to_vec(), entry, names]
}

fn needles() -> [Vec<u8>; NEEDLES] {
    let [first, second, third] = [derived(&FIRST), derived(&SECOND), derived(&THIRD)];
    let [first_prk, first_entry, first_names] = first;
    let [second_prk, second_entry, _] = second;
    let [third_prk, third_entry, _] = third;
    [
        FIRST.to_vec(),
        hex(&FIRST).into_bytes(),
        first_prk,
        first_entry,
        first_names,
        SECOND.to_vec(),
        second_prk,
        second_entry,
        THIRD.to_vec(),
        hex(&THIRD).into_bytes(),
        third_prk,
        third_entry,
    ]
}

fn seal_and_open(sealer: &dyn Sealer, context: SealContext<'_>) {
    let header = Header {
        suite: Suite::Sealed,
        flags: 0,
        kind: Kind::Value,
        format: 0,
        schema_version: 0,
        written_at: 1,
        fresh_until: u64::MAX,
        expires_at: u64::MAX,
    };
    let acceptance = Acceptance { max_stored_len: 1_000, now: 2, schema_version: 0, tier: Tier::L1 };
    let entry = sealer.seal(context, header, vec![0; sealer.headroom()]).expect("randomness");
    sealer.open(context, entry, acceptance).expect("what was just sealed");
}

/// Everything that a process does with keys, to the end.
fn life_of_a_key(first: &str, variable: &str) {
    let ring = Keyring::new(MasterKey::from_bytes(SECOND)).previous(MasterKey::from_hex(first).expect("a key"));
    let names = MasterKey::from_hex(first).expect("a key");
    let secure = Secure::new(ring).max_ciphers(1).hide_key_names(names);
    let sealer = secure.sealer();
    seal_and_open(&*sealer, CONTEXT);
    assert!(sealer.stored_key("users:", "users:42").is_some());
    // Pushes the ciphers of the first context out of the cache.
    for number in 0..100 {
        seal_and_open(&*sealer, SealContext { tenant: &format!("tenant {number}"), ..CONTEXT });
    }
    seal_and_open(&*sealer, CONTEXT);
    let bad = Keyring::new(MasterKey::from_bytes(FIRST)).previous(MasterKey::from_bytes(FIRST));
    assert!(Secure::new(bad).check().is_err());
    let third = MasterKey::from_env(variable).expect("a key");
    secure.reload(Keyring::new(third).previous(MasterKey::from_bytes(SECOND))).expect("a good ring");
    seal_and_open(&*sealer, CONTEXT);
    assert!(MasterKey::from_hex(&first[1..]).is_err());
}

#[allow(unsafe_code, reason = "the variable is set in this process, so that nobody has to set it outside")]
fn set_variable(name: &str, value: &str) {
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var(name, value) };
}

fn main() {
    let first = hex(&FIRST);
    set_variable("CACHEKIT_PROBE", &hex(&THIRD));
    assert!(SPY.needles.set(needles()).is_ok());

    SPY.armed.store(true, Ordering::Relaxed);
    // The control: each needle in a block of its own that nobody zeroizes.
    for needle in SPY.needles.get().expect("set above") {
        drop(std::hint::black_box([&[1; 7][..], needle].concat()));
    }
    assert_eq!(SPY.found(), [1; NEEDLES], "the control: the allocator has to find what is there");

    life_of_a_key(&first, "CACHEKIT_PROBE");
    let found = SPY.found();
    let freed = SPY.freed.load(Ordering::Relaxed);
    SPY.armed.store(false, Ordering::Relaxed);
    assert_eq!(found, [0; NEEDLES], "a key was left in a block that was freed");
    assert!(freed > 500, "only {freed} blocks were freed, so the probe did not see the keys");
    println!("zeroize: none of {NEEDLES} secrets in {freed} freed blocks, all of them in the control");
}
