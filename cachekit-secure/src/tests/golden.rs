//! The entry of version 1, byte for byte: an upgrade that changed it would lose or misread the cache of a whole fleet.

use super::{CONTEXT, Fixed, acceptance, buffer, header, hex, master, secure, with_random};
use crate::Compression;
use crate::padding::Padding;
use bytes::Bytes;
use cachekit_core::entry::{FLAG_LZ4, FLAG_PADDED, FLAG_ZSTD};
use cachekit_core::{OpenError, Sealer};
use std::num::NonZeroUsize;

const PAYLOAD: &str = "82a36167651ea46e616d65a5616c696365";
const ENTRY: &str = "c1530101000101000000000700000199c82cc00000000199c82f09f000000199c83153e0e479b8e603059783af0e253b1ac5981440414243\
                     4445464748494a4b4c4d4e4f5051525354555657aac9be9ce533a436ec7057edfd691830deab34d01753eec242e66d9b8df924fe5f";

fn fixed() -> Fixed {
    Fixed(std::array::from_fn(|i| 0x40 + u8::try_from(i).unwrap()))
}

#[test]
fn the_key_and_its_id_are_derived_as_written_down() {
    let (key, id) = master(0).prk().entry_key("acme", "users").unwrap();
    assert_eq!(key[..], hex("8bb203edefa30a04ae641070c6a23f01c6eeef04109fa6be181462c399d2c325"));
    assert_eq!(id[..], hex("e479b8e603059783af0e253b1ac59814"));
}

#[test]
fn the_golden_entry_is_written() {
    let sealed = with_random(&secure(), fixed()).seal(CONTEXT, header(), buffer(&hex(PAYLOAD))).unwrap();
    assert_eq!(sealed, hex(ENTRY));
    assert_eq!(sealed.len(), 109);
}

#[test]
fn the_golden_entry_is_read_in_place_and_from_a_copy() {
    let sealer = secure().sealer();
    let entry = Bytes::from(hex(ENTRY));
    let shared = entry.clone();
    let expected = Ok((header(), Bytes::from(hex(PAYLOAD))));
    assert_eq!(sealer.open(CONTEXT, shared, acceptance()), expected);
    assert_eq!(entry, hex(ENTRY), "somebody else held it, so it was not touched");
    let at = entry.as_ptr() as usize;
    let opened = sealer.open(CONTEXT, entry, acceptance());
    assert_eq!(opened, expected);
    assert_eq!(
        opened.unwrap().1.as_ptr() as usize,
        at + sealer.headroom(),
        "nobody else held it, so it was not copied"
    );
}

#[test]
fn sealing_with_room_in_the_buffer_does_not_move_it() {
    let sealer = secure().sealer();
    let mut payload = Vec::with_capacity(sealer.overhead() + 5_000);
    payload.resize(sealer.headroom() + 5_000, 7);
    let at = payload.as_ptr();
    assert_eq!(sealer.seal(CONTEXT, header(), payload).unwrap().as_ptr(), at);
}

#[test]
fn what_the_caller_says_of_suite_and_flags_is_not_believed() {
    let mut lying = header();
    lying.flags = 7;
    lying.suite = cachekit_core::entry::Suite::Plain;
    assert_eq!(with_random(&secure(), fixed()).seal(CONTEXT, lying, buffer(&hex(PAYLOAD))).unwrap(), hex(ENTRY));
}

#[test]
fn payloads_of_all_shapes_come_back() {
    let text = "a text that repeats itself, ".repeat(40).into_bytes();
    let noise = super::differential::noise(&mut 3, 997);
    let bucket = Padding::multiples_of(NonZeroUsize::new(256).unwrap());
    let all = [None, Some(Compression::lz4()), Some(Compression::zstd(3))];
    for (compression, compressed) in all.into_iter().zip([0, FLAG_LZ4, FLAG_ZSTD]) {
        for (padding, padded) in [(None, 0), (Some(bucket), FLAG_PADDED)] {
            let mut secure = secure();
            if let Some(compression) = compression {
                secure = secure.compression(compression);
            }
            if let Some(padding) = padding {
                secure = secure.padding(padding);
            }
            let sealer = secure.sealer();
            for payload in [&b""[..], b"x", &text, &noise] {
                let sealed = sealer.seal(CONTEXT, header(), buffer(payload)).unwrap();
                let (opened_header, opened) = sealer.open(CONTEXT, sealed.clone(), acceptance()).unwrap();
                assert_eq!(opened, payload);
                let shorter = if payload == text { compressed } else { 0 };
                assert_eq!(opened_header.flags, shorter | padded);
                assert_eq!(payload == text && compressed != 0, sealed.len() < payload.len());
                if padded != 0 {
                    assert_eq!((sealed.len() - sealer.overhead()) % 256, 0);
                }
            }
        }
    }
}

#[test]
fn a_payload_that_inflates_past_the_bound_is_not_decoded() {
    let zeros = vec![0; 100_000];
    for compression in [Compression::lz4(), Compression::zstd(1)] {
        let secure = secure().compression(compression);
        let sealed = secure.sealer().seal(CONTEXT, header(), buffer(&zeros)).unwrap();
        assert!(sealed.len() < 1_000);
        let open =
            |bound| secure.clone().max_inflated_bytes(bound).sealer().open(CONTEXT, sealed.clone(), acceptance());
        assert_eq!(open(100_000).unwrap().1, zeros);
        assert_eq!(open(99_999).unwrap_err(), OpenError::Undecodable);
        let uncompressed = secure.max_inflated_bytes(99_999).sealer().seal(CONTEXT, header(), buffer(&zeros)).unwrap();
        assert_eq!(uncompressed.len(), 100_092);
    }
}
