//! What is authenticated besides the payload: every byte of the header, and whose entry it is.

use crate::derive::{KEY_ID_LEN, KeyId, lp32};
use cachekit_core::SealContext;
use cachekit_core::entry::Header;

const ENTRY: &[u8] = b"cachekit-secure/1 aad";
const MESSAGE: &[u8] = b"cachekit-secure/1 message";

/// What is sealed. A message never opens as an entry, nor an entry as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Entry,
    Message,
}

/// `label ++ header ++ key id ++ lp32(tenant) ++ lp32(namespace) ++ lp32(stored key)`; `None` when a name is too long to
/// express.
pub(crate) fn build(
    purpose: Purpose,
    header: &[u8; Header::LEN],
    id: &KeyId,
    context: SealContext<'_>,
) -> Option<Vec<u8>> {
    let label = match purpose {
        Purpose::Entry => ENTRY,
        Purpose::Message => MESSAGE,
    };
    let names = [context.tenant, context.namespace, context.stored_key];
    let names_len: usize = names.iter().map(|name| 4 + name.len()).sum();
    let mut aad = Vec::with_capacity(label.len() + Header::LEN + KEY_ID_LEN + names_len);
    aad.extend_from_slice(label);
    aad.extend_from_slice(header);
    aad.extend_from_slice(id);
    for name in names {
        aad.extend_from_slice(&lp32(name)?);
        aad.extend_from_slice(name.as_bytes());
    }
    Some(aad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aad(purpose: Purpose, [tenant, namespace, stored_key]: [&str; 3]) -> Vec<u8> {
        build(purpose, &[7; 36], &[9; 16], SealContext { namespace, stored_key, tenant }).unwrap()
    }

    #[test]
    fn it_is_laid_out_as_written_down() {
        let expected =
            [&b"cachekit-secure/1 aad"[..], &[7; 36], &[9; 16], b"\0\0\0\x04acme\0\0\0\x05users\0\0\0\x08users:42"];
        let built = aad(Purpose::Entry, ["acme", "users", "users:42"]);
        assert_eq!(built, expected.concat());
        assert_eq!(built.capacity(), built.len());
    }

    #[test]
    fn no_two_contexts_share_one() {
        let names = ["", "a", "b", "ab", "\0\0\0\x01a", "\0\0\0\0"];
        let mut seen = std::collections::HashSet::new();
        for purpose in [Purpose::Entry, Purpose::Message] {
            for tenant in names {
                for namespace in names {
                    for key in names {
                        assert!(
                            seen.insert(aad(purpose, [tenant, namespace, key])),
                            "{tenant:?} {namespace:?} {key:?}"
                        );
                    }
                }
            }
        }
    }
}
