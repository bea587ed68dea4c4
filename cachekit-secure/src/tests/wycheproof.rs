//! Project Wycheproof's vectors, through our own functions and seam.

use crate::aead::{Gcm, RustGcm};
use crate::derive::{hkdf_expand, hkdf_extract};
use wycheproof::{TestResult, aead, hkdf};

fn check_gcm(test: &aead::Test) {
    let cipher = <RustGcm as Gcm>::new(test.key[..].try_into().unwrap());
    let nonce: &[u8; 12] = test.nonce[..].try_into().unwrap();
    let tag: &[u8; 16] = test.tag[..].try_into().unwrap();
    let mut text = test.ct.to_vec();
    let opened = cipher.open(nonce, &test.aad, &mut text, tag);
    if test.result == TestResult::Invalid {
        assert!(opened.is_err(), "case {}: {}", test.tc_id, test.comment);
        return;
    }
    assert_eq!((opened, &text), (Ok(()), &test.pt.to_vec()), "case {}", test.tc_id);
    assert_eq!(cipher.seal(nonce, &test.aad, &mut text).unwrap(), *tag, "case {}", test.tc_id);
    assert_eq!(text, test.ct.to_vec(), "case {}", test.tc_id);
}

#[test]
fn aes_256_gcm() {
    let (mut valid, mut invalid) = (0, 0);
    let set = aead::TestSet::load(aead::TestName::AesGcm).unwrap();
    let ours = |group: &&aead::TestGroup| (group.key_size, group.nonce_size, group.tag_size) == (256, 96, 128);
    for test in set.test_groups.iter().filter(ours).flat_map(|group| &group.tests) {
        check_gcm(test);
        *(if test.result == TestResult::Invalid { &mut invalid } else { &mut valid }) += 1;
    }
    assert_eq!((valid, invalid), (39, 27));
}

#[test]
fn hkdf_sha_256() {
    let mut count = 0;
    let set = hkdf::TestSet::load(hkdf::TestName::HkdfSha256).unwrap();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (mut prk, mut okm) = ([0; 32], vec![0; test.size]);
        hkdf_extract(&test.salt, &test.ikm, &mut prk);
        let expanded = hkdf_expand(&prk, &[&test.info], &mut okm);
        match test.result {
            TestResult::Invalid => assert_eq!(expanded, None, "case {}", test.tc_id),
            _ => assert_eq!((expanded, &okm), (Some(()), &test.okm.to_vec()), "case {}", test.tc_id),
        }
        count += 1;
    }
    assert_eq!(count, 86);
}
