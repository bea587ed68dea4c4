//! The derived keys that are kept, and those that are not needed.

use super::counting;
use super::{CONTEXT, acceptance, buffer, header, master, secure};
use crate::ciphers::CipherCache;
use cachekit_core::{OpenError, SealContext, Sealer};
use std::sync::Arc;

#[test]
fn no_more_ciphers_are_kept_than_allowed() {
    for capacity in [1, 2, 10, 100] {
        let cache = CipherCache::new(capacity);
        let prks = [master(0).into_prk()];
        for number in 0..3 * capacity {
            cache.of(&prks, &format!("tenant {number}"), "").unwrap();
        }
        assert!((1..=capacity).contains(&cache.len()), "{} of {capacity}", cache.len());
    }
}

#[test]
fn one_in_use_is_found_again_and_is_nobody_elses() {
    let cache = CipherCache::new(1_024);
    let prks = [master(0).into_prk(), master(1).into_prk()];
    let first = cache.of(&prks, "a", "bc").unwrap();
    assert!(Arc::ptr_eq(&first, &cache.of(&prks, "a", "bc").unwrap()));
    let other = cache.of(&prks, "ab", "c").unwrap();
    let ids = |ciphers: &crate::ciphers::Ciphers| ciphers.ids().copied().collect::<Vec<_>>();
    assert_eq!(ids(&first).len(), 2);
    assert!(ids(&first).iter().all(|id| !ids(&other).contains(id)));
    assert_eq!(first.primary().unwrap().id, ids(&first)[0]);
}

#[test]
fn many_tenants_work_with_few_ciphers() {
    let sealer = secure().max_ciphers(2).entry_sealer().unwrap();
    let tenants: Vec<_> = (0..50).map(|number| format!("tenant {number}")).collect();
    fn context(tenant: &str) -> SealContext<'_> {
        SealContext { tenant, ..CONTEXT }
    }
    let seal = |tenant: &String| sealer.seal(context(tenant), header(), buffer(tenant.as_bytes())).unwrap();
    let sealed: Vec<_> = tenants.iter().map(seal).collect();
    for (tenant, entry) in tenants.iter().zip(&sealed) {
        assert_eq!(sealer.open(context(tenant), entry.clone(), acceptance()).unwrap().1, tenant.as_bytes());
        let other = sealer.open(context("tenant"), entry.clone(), acceptance());
        assert_eq!(other.unwrap_err(), OpenError::NotAuthentic);
    }
}

#[test]
fn an_unknown_key_id_costs_no_decryption() {
    let sealer = secure().entry_sealer().unwrap();
    let sealed = sealer.seal(CONTEXT, header(), buffer(b"value")).unwrap();
    let operations_of = |entry: Vec<u8>| {
        let before = counting::operations();
        assert_eq!(sealer.open(CONTEXT, entry.into(), acceptance()).unwrap_err(), OpenError::NotAuthentic);
        counting::operations() - before
    };
    let flipped = |at: usize| {
        let mut entry = sealed.to_vec();
        entry[at] ^= 1;
        entry
    };
    assert_eq!((36..52).map(|at| operations_of(flipped(at))).sum::<u64>(), 0, "in the key id");
    assert_eq!(operations_of(sealed[..91].to_vec()), 0, "too short");
    assert_eq!(operations_of([&sealed[..], &vec![0; 1 << 20]].concat()), 0, "too large");
    assert_eq!(operations_of(flipped(52)), 1, "in the nonce");
    assert_eq!(operations_of(flipped(sealed.len() - 1)), 1, "in the tag");
}
