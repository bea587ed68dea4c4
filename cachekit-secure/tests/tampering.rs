//! Nobody who can write the store makes us read anything but what was written under this very name.

mod support;

use cachekit_core::entry::{FLAG_LZ4, FLAG_PADDED, Header, Suite, Untimely};
use cachekit_core::{Acceptance, Bytes, OpenError, SealContext, Sealer};
use cachekit_secure::{Keyring, Secure};
use std::sync::Arc;
use support::{CONTEXT, NOW, acceptance, header, master, open, seal, seal_in, secure};

const PAYLOAD: &[u8] = b"a value of 25 bytes here.";

fn sealer() -> Arc<dyn Sealer> {
    secure().sealer()
}

fn is_refused(sealer: &dyn Sealer, entry: &[u8], what: &str) {
    // Held by nobody else, and by somebody else: both ways of decrypting.
    assert_eq!(open(sealer, entry.to_vec()), Err(OpenError::NotAuthentic), "{what}");
    let shared = Bytes::copy_from_slice(entry);
    assert_eq!(open(sealer, shared.clone()), Err(OpenError::NotAuthentic), "{what}");
    assert_eq!(shared, entry);
}

#[test]
fn every_single_flipped_bit_is_noticed() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    assert_eq!(entry.len(), 117);
    for bit in 0..entry.len() * 8 {
        let mut flipped = entry.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        is_refused(&*sealer, &flipped, &format!("bit {bit}"));
    }
    assert_eq!(open(&*sealer, entry).unwrap(), PAYLOAD);
}

#[test]
fn cut_at_every_length_it_does_not_open() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    for len in 0..entry.len() {
        is_refused(&*sealer, &entry[..len], &format!("the first {len} bytes"));
        is_refused(&*sealer, &entry[entry.len() - len..], &format!("the last {len} bytes"));
        let mut without = entry.to_vec();
        without.remove(len);
        is_refused(&*sealer, &without, &format!("without byte {len}"));
    }
}

#[test]
fn with_anything_before_within_or_behind_it_does_not_open() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    for extra in [&[0][..], &[0xFF], &[0; 16], &entry[..16], &entry[..]] {
        is_refused(&*sealer, &[&entry[..], extra].concat(), "behind");
        is_refused(&*sealer, &[extra, &entry[..]].concat(), "before");
        for at in [36, 52, 76, entry.len() - 16] {
            is_refused(&*sealer, &[&entry[..at], extra, &entry[at..]].concat(), "within");
        }
    }
}

#[test]
fn parts_of_two_entries_in_any_mixture_do_not_open() {
    let sealer = sealer();
    let mut later = header();
    later.expires_at += 1;
    let one = seal(&*sealer, PAYLOAD);
    let two = seal_in(&*sealer, CONTEXT, later, b"another value, 25 bytes!!");
    assert_eq!(one.len(), two.len());
    // header, key id, nonce, ciphertext, tag; the key ids are the same.
    let cuts = [0, 36, 52, 76, one.len() - 16, one.len()];
    for mask in 0..1_u32 << 5 {
        let part = |i: usize| &(if mask & (1 << i) == 0 { &one } else { &two })[cuts[i]..cuts[i + 1]];
        let mixed = [part(0), part(1), part(2), part(3), part(4)].concat();
        if mixed == one || mixed == two {
            assert!(open(&*sealer, mixed).is_ok());
        } else {
            is_refused(&*sealer, &mixed, &format!("mixture {mask:05b}"));
        }
    }
    for at in 1..one.len() {
        let (head, tail) = ([&one[..at], &two[at..]].concat(), [&two[..at], &one[at..]].concat());
        for mixed in [head, tail].iter().filter(|mixed| **mixed != one && **mixed != two) {
            is_refused(&*sealer, mixed, &format!("spliced at {at}"));
        }
    }
}

#[test]
fn another_key_namespace_or_tenant_does_not_open_it() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    for (tenant, namespace, stored_key) in [
        ("acme", "users", "users:43"),
        ("acme", "users", "users:4"),
        ("acme", "users", ""),
        ("acme", "user", "users:42"),
        ("acme", "", "users:42"),
        ("", "users", "users:42"),
        ("acm", "eusers", "users:42"),
        ("acmeusers", "", "users:42"),
        ("users", "acme", "users:42"),
        ("acme", "usersusers:42", ""),
    ] {
        let context = SealContext { namespace, stored_key, tenant };
        let opened = sealer.open(context, entry.clone(), acceptance());
        assert_eq!(opened.unwrap_err(), OpenError::NotAuthentic, "{tenant:?} {namespace:?} {stored_key:?}");
    }
}

#[test]
fn another_master_key_does_not_open_it() {
    let entry = seal(&*sealer(), PAYLOAD);
    for first in 1..=255 {
        is_refused(&*Secure::new(Keyring::new(master(first))).sealer(), &entry, "another master key");
    }
}

/// Each field of the header replaced by another valid one, in an entry that is otherwise whole.
#[test]
fn another_schema_time_format_kind_or_flag_does_not_open_it() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    type Change = fn(&mut Header);
    let variants: [(&str, Change); 9] = [
        ("schema", |header| header.schema_version = 8),
        ("written earlier", |header| header.written_at -= 1),
        ("written later", |header| header.written_at += 1),
        ("fresh for longer", |header| header.fresh_until += 1),
        ("living longer", |header| header.expires_at += 1),
        ("living for ever", |header| header.expires_at = u64::MAX),
        ("format", |header| header.format = 2),
        ("kind", |header| header.kind = cachekit_core::entry::Kind::Absent),
        ("flag", |header| header.flags = FLAG_PADDED),
    ];
    for (what, change) in variants {
        let mut changed = header();
        change(&mut changed);
        is_refused(&*sealer, &[&changed.to_bytes()[..], &entry[36..]].concat(), what);
    }
}

#[test]
fn an_authentic_entry_of_the_wrong_time_or_schema_is_a_miss() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    let at = |now, schema_version| {
        let acceptance = Acceptance { now, schema_version, ..acceptance() };
        sealer.open(CONTEXT, entry.clone(), acceptance).map(|(_, payload)| payload)
    };
    assert_eq!(at(NOW + 299_999, 7).unwrap(), PAYLOAD);
    assert_eq!(at(NOW + 300_000, 7), Err(OpenError::Untimely(Untimely::Expired)));
    assert_eq!(at(u64::MAX, 7), Err(OpenError::Untimely(Untimely::Expired)));
    assert_eq!(at(NOW - 30_000, 7).unwrap(), PAYLOAD);
    assert_eq!(at(NOW - 30_001, 7), Err(OpenError::Untimely(Untimely::FromTheFuture)));
    assert_eq!(at(NOW, 8), Err(OpenError::Untimely(Untimely::OtherSchema)));
}

/// What is wrong with an entry is not told by whether it is also expired.
#[test]
fn an_entry_that_is_not_authentic_is_that_whatever_its_times() {
    let sealer = sealer();
    let mut entry = seal(&*sealer, PAYLOAD).to_vec();
    *entry.last_mut().unwrap() ^= 1;
    let acceptance = Acceptance { now: u64::MAX, schema_version: 9, ..acceptance() };
    assert_eq!(sealer.open(CONTEXT, entry.into(), acceptance).unwrap_err(), OpenError::NotAuthentic);
}

#[test]
fn the_longest_entry_opens_and_one_byte_more_is_not_looked_at() {
    let sealer = sealer();
    let entry = seal(&*sealer, PAYLOAD);
    let bounded = |max_stored_len| sealer.open(CONTEXT, entry.clone(), Acceptance { max_stored_len, ..acceptance() });
    assert_eq!(bounded(117).unwrap().1, PAYLOAD);
    assert_eq!(bounded(116).unwrap_err(), OpenError::NotAuthentic);
}

#[test]
fn u122_a_plain_entry_never_opens() {
    let sealer = sealer();
    let golden = "c1500100000101000000000700000199c82cc00000000199c82f09f000000199c83153e03bc029042f23087482a36167651ea46e616d6\
                  5a5616c696365";
    is_refused(&*sealer, &support::hex(golden), "a plain entry");
    let mut plain = header();
    plain.suite = Suite::Plain;
    is_refused(&*sealer, &[&plain.to_bytes()[..], &[0; 8], PAYLOAD].concat(), "a hand-made one");
    for text in [&b""[..], b"hello", br#"{"age":30}"#, &[0xC1; 200], &[0; 200], &[0xFF; 200]] {
        is_refused(&*sealer, text, "no entry at all");
    }
}

/// Sealed by the other implementation, opened by ours, and the other way round.
#[test]
fn an_independent_implementation_agrees() {
    use support::forge::{self, Owner};
    let sealer = sealer();
    for (tenant, namespace, stored_key) in [("", "", ""), ("acme", "users", "users:42"), ("é", "🦀", "a b\n")] {
        let owner = Owner { master: support::master_bytes(0), tenant, namespace, stored_key };
        let context = SealContext { namespace, stored_key, tenant };
        for len in [0, 1, 15, 16, 17, 1_000] {
            let payload = vec![7; len];
            let ours = seal_in(&*sealer, context, header(), &payload);
            assert_eq!(forge::open(owner, &ours).unwrap(), payload);
            let theirs = forge::seal(owner, &header().to_bytes(), &[9; 24], &payload);
            assert_eq!(sealer.open(context, theirs.into(), acceptance()).unwrap(), (header(), payload.into()));
        }
    }
}

/// Only a holder of the key can write these, and they are misses.
#[test]
fn an_authentic_payload_that_does_not_inflate_is_undecodable() {
    use support::forge::{self, Owner};
    let owner = Owner { master: support::master_bytes(0), tenant: "acme", namespace: "users", stored_key: "users:42" };
    let mut header = header();
    for (flags, payload) in [
        (FLAG_PADDED, &b""[..]),
        (FLAG_PADDED, b"\0\0\0\x03"),
        (FLAG_PADDED, b"\0\0\0\x05"),
        (FLAG_LZ4, b""),
        (FLAG_LZ4, b"\0\0\0"),
        (FLAG_LZ4, b"\0\0\0\x01"),
        (FLAG_LZ4, b"\xFF\xFF\xFF\xFF\0\0\0\0"),
        (FLAG_LZ4, b"\0\0\0\x02\x10a"),
        (FLAG_PADDED | FLAG_LZ4, b"\0\0\0\x08\0\0\0\x08"),
    ] {
        header.flags = flags;
        let entry = forge::seal(owner, &header.to_bytes(), &[9; 24], payload);
        assert_eq!(open(&*sealer(), entry), Err(OpenError::Undecodable), "{flags} {payload:?}");
    }
}
