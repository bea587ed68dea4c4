//! The vectors of C2SP's specification of XAES-256-GCM.

use super::hex;
use crate::xaes::Xaes;
use shake::{ExtendableOutput, Shake128, Update, XofReader};

fn seal(key: &[u8; 32], nonce: &[u8; 24], aad: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let cipher: Xaes = Xaes::new(key);
    let mut text = plaintext.to_vec();
    let tag = cipher.seal(nonce, aad, &mut text).unwrap();
    let mut opened = text.clone();
    cipher.open(nonce, aad, &mut opened, &tag).unwrap();
    assert_eq!(opened, plaintext);
    text.extend_from_slice(&tag);
    text
}

#[test]
fn both_vectors_of_the_specification() {
    let nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";
    let without = seal(&[1; 32], nonce, b"", b"XAES-256-GCM");
    assert_eq!(without, hex("ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"));
    let with = seal(&[3; 32], nonce, b"c2sp.org/XAES-256-GCM", b"XAES-256-GCM");
    assert_eq!(with, hex("986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"));
}

/// Keys, nonces, texts and associated data out of one SHAKE128, all ciphertexts into another.
fn accumulated(iterations: u32) -> [u8; 32] {
    let mut source = Shake128::default().finalize_xof();
    let mut sum = Shake128::default();
    for _ in 0..iterations {
        let (mut key, mut nonce) = ([0; 32], [0; 24]);
        source.read(&mut key);
        source.read(&mut nonce);
        let mut text = || {
            let mut len = [0];
            source.read(&mut len);
            let mut text = vec![0; len[0].into()];
            source.read(&mut text);
            text
        };
        let (plaintext, aad) = (text(), text());
        sum.update(&seal(&key, &nonce, &aad, &plaintext));
    }
    let mut result = [0; 32];
    sum.finalize_xof().read(&mut result);
    result
}

#[test]
fn ten_thousand_accumulated() {
    assert_eq!(accumulated(10_000)[..], hex("e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"));
}

#[test]
fn a_million_accumulated() {
    assert_eq!(accumulated(1_000_000)[..], hex("2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15"));
}
