//! Sealing and opening, next to bare AES-256-GCM with the same source of nonces and as much associated data: that of
//! RustCrypto, which we use, and that of ring. Alternating; medians; prints a Markdown table.
//!
//! `cargo bench -p cachekit-secure --bench seal`

#![allow(clippy::expect_used, clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints, and may stop")]

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use bytes::Bytes;
use cachekit_core::entry::{Header, Kind, Suite};
use cachekit_core::{Acceptance, SealContext, Sealer, Tier};
use cachekit_secure::{Keyring, MasterKey, Secure};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, UnboundKey};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONTEXT: SealContext<'static> = SealContext { namespace: "users", stored_key: "users:42", tenant: "acme" };
/// That of the context above.
const AAD: [u8; 21 + 36 + 16 + 12 + 4 + 5 + 8] = [7; 102];
const HEADROOM: usize = 76;
const TAG: usize = 16;
const KEY: [u8; 32] = [9; 32];
const ROUNDS: usize = 1_001;
/// Short, so that on a busy machine most of them are not interrupted.
const ROUND: Duration = Duration::from_micros(250);

const HEADER: Header = Header {
    suite: Suite::Sealed,
    flags: 0,
    kind: Kind::Value,
    format: 1,
    schema_version: 0,
    written_at: 1_000,
    fresh_until: u64::MAX,
    expires_at: u64::MAX,
};
const ACCEPTANCE: Acceptance = Acceptance { max_stored_len: usize::MAX, now: 2_000, schema_version: 0, tier: Tier::L1 };

/// The payload behind the headroom, in a buffer with room for the tag, as a cache encodes it.
fn buffer(payload: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(HEADROOM + payload.len() + TAG);
    buffer.resize(HEADROOM, 0);
    buffer.extend_from_slice(payload);
    buffer
}

fn nonce() -> [u8; 12] {
    let mut nonce = [0; 12];
    getrandom::fill(&mut nonce).unwrap();
    nonce
}

struct Ours(Arc<dyn Sealer>);

impl Ours {
    fn seal(&self, payload: &[u8]) -> Bytes {
        self.0.seal(CONTEXT, HEADER, buffer(payload)).unwrap()
    }

    fn open(&self, entry: &Bytes) -> Bytes {
        self.0.open(CONTEXT, entry.clone(), ACCEPTANCE).unwrap().1
    }
}

/// RustCrypto's cipher, its key schedule made once.
struct Bare(Aes256Gcm);

impl Bare {
    fn seal(&self, payload: &[u8]) -> Bytes {
        let (mut buffer, nonce) = (buffer(payload), nonce());
        let text = (&mut buffer[HEADROOM..]).into();
        let tag = self.0.encrypt_inout_detached(&Nonce::from(nonce), &AAD, text).unwrap();
        buffer[HEADROOM - 12..HEADROOM].copy_from_slice(&nonce);
        buffer.extend_from_slice(&tag);
        buffer.into()
    }

    fn open(&self, entry: &Bytes) -> Bytes {
        let end = entry.len() - TAG;
        let mut text = entry[HEADROOM..end].to_vec();
        let nonce: [u8; 12] = entry[HEADROOM - 12..HEADROOM].try_into().unwrap();
        let tag: [u8; TAG] = entry[end..].try_into().unwrap();
        let nonce = Nonce::from(nonce);
        self.0.decrypt_inout_detached(&nonce, &AAD, (&mut text[..]).into(), &tag.into()).unwrap();
        text.into()
    }
}

struct Ring(LessSafeKey);

impl Ring {
    fn seal(&self, payload: &[u8]) -> Bytes {
        let (mut buffer, nonce) = (buffer(payload), nonce());
        let unique = ring::aead::Nonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(unique, Aad::from(&AAD), &mut buffer[HEADROOM..]).unwrap();
        buffer[HEADROOM - 12..HEADROOM].copy_from_slice(&nonce);
        buffer.extend_from_slice(tag.as_ref());
        buffer.into()
    }

    fn open(&self, entry: &Bytes) -> Bytes {
        let mut text = entry[HEADROOM..].to_vec();
        let nonce = ring::aead::Nonce::try_assume_unique_for_key(&entry[HEADROOM - 12..HEADROOM]).unwrap();
        let len = self.0.open_in_place(nonce, Aad::from(&AAD), &mut text).unwrap().len();
        text.truncate(len);
        text.into()
    }
}

fn nanos_each(times: u32, run: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        run();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(times)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of ours, bare and ring, measured in turn, round by round.
type Rounds = Vec<[f64; 3]>;

fn alternate(mut runs: [&mut dyn FnMut(); 3]) -> Rounds {
    let once = nanos_each(3, runs[0]);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let times = (ROUND.as_secs_f64() * 1e9 / once).clamp(1.0, 1e6) as u32;
    let round = |_| [0, 1, 2].map(|which: usize| nanos_each(times, runs[which]));
    (0..ROUNDS).map(round).collect()
}

/// Ratios and differences are taken within a round, since the machine is not the same from one to the next.
fn print_row(what: &str, len: usize, rounds: &Rounds) {
    let of = |value: fn(&[f64; 3]) -> f64| median(rounds.iter().map(value));
    println!(
        "| {what} | {len} | {:.0} | {:.0} | {:.3} | {:+.0} | {:.0} | {:.2} |",
        of(|round| round[0]),
        of(|round| round[1]),
        of(|round| round[0] / round[1]),
        of(|round| round[0] - round[1]),
        of(|round| round[2]),
        of(|round| round[0] / round[2]),
    );
}

fn main() {
    let ours = Ours(Secure::new(Keyring::new(MasterKey::from_bytes(KEY))).sealer());
    let bare = Bare(Aes256Gcm::new(&KEY.into()));
    let ring = Ring(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &KEY).unwrap()));
    println!("| what | bytes | sealer, ns | bare aes-gcm, ns | ratio | difference | bare ring, ns | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for len in [64, 1 << 10, 64 << 10, 1 << 20] {
        let payload = vec![5; len];
        let sealed = alternate([
            &mut || drop(black_box(ours.seal(black_box(&payload)))),
            &mut || drop(black_box(bare.seal(black_box(&payload)))),
            &mut || drop(black_box(ring.seal(black_box(&payload)))),
        ]);
        print_row("seal", len, &sealed);
        let entries = (ours.seal(&payload), bare.seal(&payload), ring.seal(&payload));
        let opened = alternate([
            &mut || drop(black_box(ours.open(black_box(&entries.0)))),
            &mut || drop(black_box(bare.open(black_box(&entries.1)))),
            &mut || drop(black_box(ring.open(black_box(&entries.2)))),
        ]);
        print_row("open", len, &opened);
    }
}
