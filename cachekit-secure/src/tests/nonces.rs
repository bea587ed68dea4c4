//! No nonce twice, in however many threads. The forked child is in tests/probes.

use super::{CONTEXT, buffer, header, secure};
use std::collections::HashSet;

#[test]
fn threads_never_share_a_nonce() {
    const THREADS: usize = 4;
    const EACH: usize = 2_000;
    let sealer = secure().sealer();
    let nonces = std::thread::scope(|scope| {
        let seal_many = || {
            let nonce = |_| sealer.seal(CONTEXT, header(), buffer(b"x")).unwrap()[52..76].to_vec();
            (0..EACH).map(nonce).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(seal_many)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<HashSet<_>>()
    });
    assert_eq!(nonces.len(), THREADS * EACH);
    // Not a counter either: the halves differ too.
    let halves: HashSet<_> = nonces.iter().flat_map(|nonce| [nonce[..12].to_vec(), nonce[12..].to_vec()]).collect();
    assert_eq!(halves.len(), 2 * THREADS * EACH);
}
