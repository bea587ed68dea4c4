//! A second implementation of the sealed entry, from its description and on another library: HKDF and AES-256-GCM are
//! ring's. It seals what the real one would never write.
#![allow(clippy::expect_used, reason = "it is only called with what it can take")]

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

/// Whose entry it is, as the description names it.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) master: [u8; 32],
    pub(crate) tenant: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) stored_key: &'a str,
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

fn lp32(text: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).expect("a short text").to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The entry key, then the key id.
pub(crate) fn derive(owner: Owner<'_>) -> [u8; 48] {
    let prk = Salt::new(HKDF_SHA256, b"cachekit-secure/1").extract(&owner.master);
    let info = [&b"cachekit-secure/1 entry"[..], &lp32(owner.tenant), &lp32(owner.namespace)].concat();
    let mut okm = [0; 48];
    prk.expand(&[&info], Len(48)).and_then(|okm_of| okm_of.fill(&mut okm)).expect("48 bytes are within the limit");
    okm
}

fn xaes_key(key: &[u8; 32], nonce: &[u8]) -> [u8; 32] {
    let aes = aes::Aes256Enc::new(key.into());
    let encrypt = |block: u128| {
        let mut block = aes::Block::from(block.to_be_bytes());
        aes.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    };
    let l = encrypt(0);
    let k1 = (l << 1) ^ if l >> 127 == 1 { 0x87 } else { 0 };
    let half = |counter: u8| {
        let mut block = [0; 16];
        block[..4].copy_from_slice(&[0, counter, b'X', 0]);
        block[4..].copy_from_slice(&nonce[..12]);
        encrypt(u128::from_be_bytes(block) ^ k1).to_be_bytes()
    };
    let mut derived = [0; 32];
    derived[..16].copy_from_slice(&half(1));
    derived[16..].copy_from_slice(&half(2));
    derived
}

fn aad(owner: Owner<'_>, header: &[u8], id: &[u8]) -> Vec<u8> {
    let names = [owner.tenant, owner.namespace, owner.stored_key].map(lp32).concat();
    [b"cachekit-secure/1 aad", header, id, &names].concat()
}

fn gcm(okm: &[u8; 48], nonce: &[u8]) -> (LessSafeKey, Nonce) {
    let key = okm[..32].try_into().expect("32 bytes");
    let unbound = UnboundKey::new(&AES_256_GCM, &xaes_key(key, nonce)).expect("32 bytes");
    (LessSafeKey::new(unbound), Nonce::try_assume_unique_for_key(&nonce[12..]).expect("12 bytes"))
}

/// The header of a sealed entry with no end.
pub(crate) fn header(
    flags: u8,
    kind: u8,
    format: u8,
    schema_version: u32,
    written_at: u64,
    expires_at: u64,
) -> Vec<u8> {
    let mut header = vec![0xC1, 0x53, 1, 1, flags, kind, format, 0];
    header.extend_from_slice(&schema_version.to_be_bytes());
    for time in [written_at, expires_at, expires_at] {
        header.extend_from_slice(&time.to_be_bytes());
    }
    header
}

/// Seals a payload under any header.
pub(crate) fn seal(owner: Owner<'_>, header: &[u8], nonce: &[u8; 24], payload: &[u8]) -> Vec<u8> {
    let okm = derive(owner);
    let (key, short_nonce) = gcm(&okm, nonce);
    let mut text = payload.to_vec();
    let aad = Aad::from(aad(owner, header, &okm[32..]));
    key.seal_in_place_append_tag(short_nonce, aad, &mut text).expect("a short text");
    [header, &okm[32..], nonce, &text].concat()
}

/// The payload of an entry; `None` when it is not authentic.
pub(crate) fn open(owner: Owner<'_>, entry: &[u8]) -> Option<Vec<u8>> {
    let okm = derive(owner);
    if entry.len() < 92 || entry[36..52] != okm[32..] {
        return None;
    }
    let (key, short_nonce) = gcm(&okm, &entry[52..76]);
    let aad = Aad::from(aad(owner, &entry[..36], &entry[36..52]));
    let mut text = entry[76..].to_vec();
    key.open_in_place(short_nonce, aad, &mut text).ok().map(|payload| payload.to_vec())
}
