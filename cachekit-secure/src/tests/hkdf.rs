//! The vectors of RFC 5869, appendix A.1 to A.3.

use super::hex;
use crate::derive::{hkdf_expand, hkdf_extract};

fn check(ikm: &str, salt: &str, info: &str, prk: &str, okm: &str) {
    let mut extracted = [0; 32];
    hkdf_extract(&hex(salt), &hex(ikm), &mut extracted);
    assert_eq!(extracted[..], hex(prk));
    let mut expanded = vec![0; okm.len() / 2];
    // In one piece, and in pieces.
    let info = hex(info);
    hkdf_expand(&extracted, &[&info], &mut expanded).unwrap();
    assert_eq!(expanded, hex(okm));
    let (front, back) = info.split_at(info.len() / 3);
    hkdf_expand(&extracted, &[front, &[], back], &mut expanded).unwrap();
    assert_eq!(expanded, hex(okm));
}

fn run(from: u8, to: u8) -> String {
    (from..=to).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn rfc_5869() {
    check(
        &"0b".repeat(22),
        &run(0x00, 0x0c),
        &run(0xf0, 0xf9),
        "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    );
    check(
        &run(0x00, 0x4f),
        &run(0x60, 0xaf),
        &run(0xb0, 0xff),
        "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8\
         367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    );
    check(
        &"0b".repeat(22),
        "",
        "",
        "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    );
}

#[test]
fn more_than_there_is_and_short_keys_are_refused() {
    assert_eq!(hkdf_expand(&[1; 32], &[], &mut vec![0; 255 * 32]), Some(()));
    assert_eq!(hkdf_expand(&[1; 32], &[], &mut vec![0; 255 * 32 + 1]), None);
    assert_eq!(hkdf_expand(&[1; 31], &[], &mut [0; 1]), None);
}
