//! Without randomness nothing is sealed, and nothing is written.

use super::{Broken, CONTEXT, buffer, header, secure, with_random};
use crate::door::Door;
use crate::{Padding, SecureBackend};
use bytes::Bytes;
use cachekit_core::testing::{FaultyBackend, MemoryBackend, Op};
use cachekit_core::{Backend, ErrorKind, SealContext, SealError, Sealer, SetOptions};
use std::num::NonZeroUsize;

#[tokio::test]
async fn the_backend_is_not_called() {
    let inner = FaultyBackend::new(MemoryBackend::new());
    let faults = inner.faults();
    let backend = SecureBackend::with_door(inner, Door::new(with_random(&secure(), Broken)));
    let value = Bytes::from_static(b"value");
    let error = backend.set("k", value.clone(), SetOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(!error.may_be_applied());
    assert_eq!(backend.publish("c", value.clone()).await.unwrap_err().kind(), ErrorKind::Internal);
    let results = backend.set_many(&[("a", value.clone()), ("b", value)], SetOptions::default()).await;
    assert!(results.len() == 2 && results.iter().all(Result::is_err));
    assert_eq!((faults.calls(Op::Set), faults.calls(Op::Publish)), (0, 0));
    assert!(backend.inner().inner().is_empty());
}

#[test]
fn what_cannot_be_sealed_has_its_reason() {
    let seal = |secure: &crate::Secure, buffer| secure.sealer().seal(CONTEXT, header(), buffer);
    assert_eq!(with_random(&secure(), Broken).seal(CONTEXT, header(), buffer(b"x")), Err(SealError::Randomness));
    assert_eq!(seal(&secure(), vec![0; 75]), Err(SealError::NoRoom));
    assert!(seal(&secure(), vec![0; 76]).is_ok());
    let huge = secure().padding(Padding::multiples_of(NonZeroUsize::new(1 << 40).unwrap()));
    assert_eq!(seal(&huge, buffer(b"x")), Err(SealError::TooLarge));
    let bad = crate::Secure::new(crate::Keyring::new(super::master(0)).previous(super::master(0)));
    assert_eq!(seal(&bad, buffer(b"x")), Err(SealError::NoKey));
    let context = SealContext { tenant: "", ..CONTEXT };
    assert!(bad.sealer().check().is_err() && bad.sealer().open(context, Bytes::new(), super::acceptance()).is_err());
}
