//! Against ring, which shares no code with what is in use; and proof that another provider fits the seam.

use crate::aead::{AeadError, Gcm, RustGcm, TAG_LEN};
use crate::derive::{hkdf_expand, hkdf_extract};
use crate::xaes::Xaes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

struct RingGcm(LessSafeKey);

impl Gcm for RingGcm {
    fn new(key: &[u8; 32]) -> Self {
        Self(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap()))
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), text).map_err(|_| AeadError)?;
        Ok(tag.as_ref().try_into().unwrap())
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place_separate_tag(nonce, Aad::from(aad), Tag::from(*tag), text, 0..);
        opened.map(|_| ()).map_err(|_| AeadError)
    }
}

/// Reproducible noise.
pub(super) fn noise(state: &mut u64, len: usize) -> Vec<u8> {
    let mut byte = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn both_providers_seal_and_open_the_same() {
    let mut state = 1;
    for round in 0..400 {
        let key: [u8; 32] = noise(&mut state, 32).try_into().unwrap();
        let nonce: [u8; 24] = noise(&mut state, 24).try_into().unwrap();
        let aad = noise(&mut state, round % 70);
        let text = noise(&mut state, if round % 50 == 0 { 10_000 + round } else { round });
        let (rust, ring): (Xaes<RustGcm>, Xaes<RingGcm>) = (Xaes::new(&key), Xaes::new(&key));
        let (mut ours, mut theirs) = (text.clone(), text.clone());
        let tag = rust.seal(&nonce, &aad, &mut ours).unwrap();
        assert_eq!(ring.seal(&nonce, &aad, &mut theirs).unwrap(), tag, "round {round}");
        assert_eq!(ours, theirs, "round {round}");
        rust.open(&nonce, &aad, &mut theirs, &tag).unwrap();
        ring.open(&nonce, &aad, &mut ours, &tag).unwrap();
        assert_eq!((&ours, &theirs), (&text, &text), "round {round}");
        let mut wrong = tag;
        wrong[round % 16] ^= 1 << (round % 8);
        assert_eq!(rust.open(&nonce, &aad, &mut theirs, &wrong), Err(AeadError));
        assert_eq!(ring.open(&nonce, &aad, &mut ours, &wrong), Err(AeadError));
    }
}

struct Len(usize);

impl ring::hkdf::KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

#[test]
fn both_derive_the_same() {
    let mut state = 2;
    for round in 0..100 {
        let (salt, ikm, info) = (noise(&mut state, round), noise(&mut state, 32), noise(&mut state, round * 3));
        let (mut prk, mut ours, mut theirs) = ([0; 32], vec![0; 1 + round], vec![0; 1 + round]);
        hkdf_extract(&salt, &ikm, &mut prk);
        hkdf_expand(&prk, &[&info], &mut ours).unwrap();
        let prk = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &salt).extract(&ikm);
        prk.expand(&[&info], Len(1 + round)).unwrap().fill(&mut theirs).unwrap();
        assert_eq!(ours, theirs, "round {round}");
    }
}
