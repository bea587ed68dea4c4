//! Vectors of NIST's validation program.

use super::hex;
use crate::aead::{AeadError, Gcm, RustGcm};

struct Case {
    fields: Vec<(&'static str, Vec<u8>)>,
    fails: bool,
}

impl Case {
    fn parse(block: &'static str) -> Self {
        let (mut fields, mut fails) = (Vec::new(), false);
        for line in block.lines() {
            match line.split_once('=') {
                Some((name, value)) => fields.push((name.trim(), hex(value.trim()))),
                None => fails |= line.trim() == "FAIL",
            }
        }
        Self { fields, fails }
    }

    fn get(&self, name: &str) -> &[u8] {
        &self.fields.iter().find(|(field, _)| *field == name).unwrap_or_else(|| panic!("no {name}")).1
    }
}

#[test]
fn cavp_aes_256_gcm() {
    let text = include_str!("vectors/nist-cavp-gcm-256.rsp");
    let (mut encrypted, mut decrypted, mut failed) = (0, 0, 0);
    let mut encrypts = false;
    for block in text.split("\n\n").map(str::trim).filter(|block| !block.is_empty() && !block.starts_with('#')) {
        if block.starts_with('[') {
            encrypts = block == "[ENCRYPT]";
            continue;
        }
        let case = Case::parse(block);
        let cipher = <RustGcm as Gcm>::new(case.get("Key").try_into().unwrap());
        let nonce = case.get("IV").try_into().unwrap();
        let tag: &[u8; 16] = case.get("Tag").try_into().unwrap();
        if encrypts {
            let mut text = case.get("PT").to_vec();
            assert_eq!(cipher.seal(nonce, case.get("AAD"), &mut text).unwrap(), *tag);
            assert_eq!(text, case.get("CT"));
            encrypted += 1;
            continue;
        }
        let mut text = case.get("CT").to_vec();
        let opened = cipher.open(nonce, case.get("AAD"), &mut text, tag);
        if case.fails {
            assert_eq!(opened, Err(AeadError));
            failed += 1;
        } else {
            assert_eq!((opened, &text[..]), (Ok(()), case.get("PT")));
            decrypted += 1;
        }
    }
    assert_eq!((encrypted, decrypted, failed), (25, 41, 34));
}
