//! Names that lead elsewhere while they are in use.

use super::{Server, State};
use crate::dial::Link;
use cachekit_core::BackendError;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

impl Server {
    pub(super) fn resolve_if_due(self: &Arc<Self>, link: &Arc<Link>, now: Instant) {
        let Some(every) = self.config.resolve_every else { return };
        if self.address.host.parse::<IpAddr>().is_err() && link.is_due(every, now) {
            // Weak: a backend that was dropped resolves nothing.
            tokio::spawn(resolve_anew(Arc::downgrade(self), link.clone()));
        }
    }
}

/// Follows a name that leads elsewhere now. Any trouble leaves everything as it is.
async fn resolve_anew(server: Weak<Server>, link: Arc<Link>) {
    let Some(server) = server.upgrade() else { return };
    let look = async {
        let addresses = server.resolver.resolve(&server.address).await?;
        if addresses == link.addresses() {
            return Ok(None);
        }
        link.reopen(&server.config, addresses).await.map(Some)
    };
    let found: Result<Result<_, BackendError>, _> = tokio::time::timeout(server.config.connect_timeout, look).await;
    let Ok(Ok(Some(found))) = found else { return };
    let mut state = server.state();
    if matches!(&*state, State::Up(current) if Arc::ptr_eq(current, &link)) {
        *state = State::Up(Arc::new(found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemcachedConfig;
    use crate::dial::Resolver;
    use crate::error::Doing;
    use cachekit_servers::Memcached;
    use futures_util::future::FutureExt;
    use memcache::exp::{Get, Set};
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// The name `cache.test`, which leads wherever a test wants.
    #[derive(Clone, Default)]
    struct Name {
        addresses: Arc<Mutex<Vec<SocketAddr>>>,
        asked: Arc<AtomicUsize>,
    }

    impl Name {
        fn of(servers: &[&Memcached]) -> Self {
            let name = Self::default();
            name.leads_to(servers);
            name
        }

        fn leads_to(&self, servers: &[&Memcached]) {
            *self.addresses.lock().unwrap() = servers.iter().map(|server| server.address().parse().unwrap()).collect();
        }

        fn server(&self, resolve_every: Option<Duration>) -> Arc<Server> {
            let name = self.clone();
            let resolver = Resolver::new(move |_| {
                name.asked.fetch_add(1, Ordering::SeqCst);
                let addresses = name.addresses.lock().unwrap().clone();
                async move { Ok(addresses) }.boxed()
            });
            let config = MemcachedConfig::server("cache.test", 1)
                .with_resolve_every(resolve_every)
                .with_open_for(Duration::from_millis(200));
            let address = config.addresses[0].clone();
            Server::new(address, Arc::new(config), resolver)
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    /// What `get key` finds.
    async fn look(server: &Arc<Server>) -> Result<Option<Vec<u8>>, BackendError> {
        let exchange = |link: Arc<Link>| async move { link.client.run(Get::new("key")).await };
        Ok(server.call(Doing::Read, 0, exchange).await?.value)
    }

    /// Two servers, each of which holds its number.
    async fn two() -> [Memcached; 2] {
        let servers = [Memcached::start(), Memcached::start()];
        for (number, server) in servers.iter().enumerate() {
            let connected = Name::of(&[server]).server(None);
            connected.connect().await.unwrap();
            let exchange = |link: Arc<Link>| async move { link.client.run(Set::new("key", number.to_string())).await };
            connected.call(Doing::Write, 0, exchange).await.unwrap();
        }
        servers
    }

    async fn until_found(server: &Arc<Server>, wanted: &[u8]) {
        let end = Instant::now() + Duration::from_secs(3);
        while look(server).await.ok().flatten().as_deref() != Some(wanted) {
            assert!(Instant::now() < end, "it does not get there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_elsewhere_is_followed() {
        let [a, b] = two().await;
        let name = Name::of(&[&a]);
        let server = name.server(Some(Duration::from_millis(100)));
        server.connect().await.unwrap();
        assert_eq!(look(&server).await.unwrap().unwrap(), b"0");
        name.leads_to(&[&b]);
        let moved = Instant::now();
        until_found(&server, b"1").await;
        assert!(moved.elapsed() < Duration::from_millis(600), "{:?}", moved.elapsed());
        // Neither a name that leads nowhere nor one that does not answer takes a server away that does.
        for nowhere in [&[][..], &["127.0.0.1:1".parse().unwrap()][..]] {
            *name.addresses.lock().unwrap() = nowhere.to_vec();
            let asked = name.asked();
            while name.asked() < asked + 2 {
                assert_eq!(look(&server).await.unwrap().unwrap(), b"1");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    #[tokio::test]
    async fn a_name_with_one_more_address_keeps_its_connections() {
        let [a, b] = two().await;
        let connections = || {
            let stats = a.ask("stats");
            let line = stats.lines().find_map(|line| line.strip_prefix("STAT total_connections ")).unwrap();
            line.trim().parse::<usize>().unwrap()
        };
        let (first, second) = if a.address() < b.address() { (&a, &b) } else { (&b, &a) };
        let name = Name::of(&[first]);
        let server = name.server(Some(Duration::from_millis(50)));
        server.connect().await.unwrap();
        look(&server).await.unwrap();
        let before = connections();
        name.leads_to(&[second, first]);
        while name.asked() < 4 {
            look(&server).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The greeting, and the two questions for the number.
        assert_eq!(connections() - before, 2);
    }

    #[tokio::test]
    async fn without_an_interval_a_name_is_resolved_after_failures_only() {
        let [a, b] = two().await;
        let name = Name::of(&[&a]);
        let server = name.server(None);
        server.connect().await.unwrap();
        name.leads_to(&[&b]);
        for _ in 0..20 {
            assert_eq!(look(&server).await.unwrap().unwrap(), b"0");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(name.asked(), 1);
        a.kill();
        until_found(&server, b"1").await;
    }

    #[tokio::test]
    async fn a_name_in_use_is_resolved_once_in_an_interval() {
        let [a, _] = two().await;
        let name = Name::of(&[&a]);
        let server = name.server(Some(Duration::from_millis(200)));
        server.connect().await.unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(900) {
            let (one, other) = tokio::join!(look(&server), look(&server));
            assert!(one.is_ok() && other.is_ok());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!((3..=5).contains(&name.asked()), "{}", name.asked());
    }

    /// Everyone has to use the same one, and a name gives them in any order.
    #[tokio::test]
    async fn of_several_addresses_the_first_that_answers_is_used_in_an_order_of_their_own() {
        let [a, b] = two().await;
        let lower = if a.address() < b.address() { (&a, b"0", &b, b"1") } else { (&b, b"1", &a, b"0") };
        let (first, wanted, second, otherwise) = lower;
        for order in [[&a, &b], [&b, &a]] {
            let server = Name::of(&order).server(None);
            server.connect().await.unwrap();
            assert_eq!(look(&server).await.unwrap().unwrap(), wanted);
        }
        first.kill();
        let server = Name::of(&[&a, &b]).server(None);
        server.connect().await.unwrap();
        assert_eq!(look(&server).await.unwrap().unwrap(), otherwise);
        second.kill();
    }
}
