//! From what the driver or the server says to an error of ours.

use cachekit_core::{BackendError, ErrorKind, Retry};
use redis::RedisError;

/// What was asked for when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Dial,
    Read,
    Write,
}

/// What a failure says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server answered.
    Alive,
    /// It is of no use any more.
    Lost,
    /// It leads to a server that is not, or no longer, the one to write to.
    Misled,
    /// No answer in time: one may have been slow, three in a row are a dead connection.
    Silent,
}

pub(crate) fn verdict(error: &RedisError) -> Verdict {
    use redis::ErrorKind as Kind;
    match error.code() {
        Some("MASTERDOWN" | "READONLY") => return Verdict::Misled,
        Some("NOAUTH" | "WRONGPASS") => return Verdict::Lost,
        Some(_) => return Verdict::Alive,
        None => {}
    }
    match error.kind() {
        Kind::Io if error.is_timeout() => Verdict::Silent,
        Kind::AuthenticationFailed | Kind::ClusterConnectionNotFound | Kind::Io | Kind::Parse => Verdict::Lost,
        _ => Verdict::Alive,
    }
}

/// The error of ours. By the code that the server sent: the driver knows only some of them.
pub(crate) fn from_redis(error: &RedisError, doing: Doing) -> BackendError {
    use redis::ErrorKind as Kind;
    if let Some(code) = error.code() {
        return from_server(code, error.detail().unwrap_or_default());
    }
    let text = error.to_string();
    match error.kind() {
        // The driver hides the answer to its HELLO or AUTH behind a kind of its own.
        Kind::AuthenticationFailed => from_handshake(&text),
        Kind::Io => from_io(error, &text, doing),
        Kind::ClusterConnectionNotFound | Kind::MasterNameNotFoundBySentinel | Kind::NoValidReplicasFoundBySentinel => {
            BackendError::new(ErrorKind::Unavailable, said(&text))
        }
        Kind::EmptySentinelList | Kind::InvalidClientConfig => BackendError::new(ErrorKind::ConfigInvalid, said(&text)),
        Kind::Parse | Kind::UnexpectedReturnType | Kind::RESP3NotSupported => {
            in_flight(BackendError::new(ErrorKind::Protocol, "the answer is not Redis's protocol"), doing)
        }
        _ => in_flight(BackendError::new(ErrorKind::Internal, said(&text)), doing),
    }
}

/// An answer that is well formed, and not one to the command.
pub(crate) fn unexpected(doing: Doing) -> BackendError {
    in_flight(BackendError::new(ErrorKind::Protocol, "the answer is not one to this command"), doing)
}

/// The error for an answer of the server's. It was not applied: the server said so.
pub(crate) fn from_server(code: &str, detail: &str) -> BackendError {
    let kind = match code {
        // The first two say that the driver ran out of tries while a cluster was changing its shape.
        "ASK" | "MOVED" | "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "TRYAGAIN" => {
            ErrorKind::Overloaded
        }
        "MISCONF" | "OOM" => ErrorKind::OutOfSpace,
        "NOAUTH" | "WRONGPASS" => ErrorKind::AuthenticationFailed,
        "NOPERM" => ErrorKind::PermissionDenied,
        "READONLY" => ErrorKind::ReadOnly,
        "CROSSSLOT" | "WRONGTYPE" => ErrorKind::Internal,
        _ if detail.contains("max number of clients") => ErrorKind::Overloaded,
        _ if detail.contains("DB index") => ErrorKind::ConfigInvalid,
        _ if detail.contains("invalid password") => ErrorKind::AuthenticationFailed,
        // An answer the protocol has no name for: the same call gets it again.
        _ => {
            let text = format!("the server says {code} {}", said(detail));
            return BackendError::new(ErrorKind::Protocol, text).with_retry(Retry::Permanent);
        }
    };
    BackendError::new(kind, format!("the server says {code} {}", said(detail)))
}

fn from_handshake(text: &str) -> BackendError {
    let kind = match text {
        _ if text.contains("max number of clients") => ErrorKind::Overloaded,
        _ if text.contains("LOADING") || text.contains("loading the dataset") => ErrorKind::Overloaded,
        _ if text.contains("NOPERM") => ErrorKind::PermissionDenied,
        _ => ErrorKind::AuthenticationFailed,
    };
    BackendError::new(kind, said(text))
}

fn from_io(error: &RedisError, text: &str, doing: Doing) -> BackendError {
    if text.contains("invalid peer certificate") || text.contains("InvalidCertificate") {
        return BackendError::new(ErrorKind::ConfigInvalid, said(text));
    }
    // A cluster's driver wraps what the nodes said.
    if doing == Doing::Dial && ["WRONGPASS", "NOAUTH"].iter().any(|code| text.contains(code)) {
        return BackendError::new(ErrorKind::AuthenticationFailed, said(text));
    }
    match doing {
        Doing::Dial if error.is_timeout() => BackendError::new(ErrorKind::Unavailable, "no connection in time"),
        Doing::Dial => BackendError::new(ErrorKind::Unavailable, said(text)),
        _ if error.is_timeout() => in_flight(BackendError::new(ErrorKind::Timeout, "no answer in time"), doing),
        _ => in_flight(BackendError::new(ErrorKind::Unavailable, format!("connection lost: {}", said(text))), doing),
    }
}

fn in_flight(error: BackendError, doing: Doing) -> BackendError {
    if doing == Doing::Write { error.maybe_applied() } else { error }
}

/// What may be repeated of a text from outside: no arguments of a command, since one may be a value or, in the answer
/// of an old server to HELLO, the password.
fn said(text: &str) -> String {
    let end = text.find("with args beginning").unwrap_or(text.len());
    text[..end].chars().filter(|letter| !letter.is_control()).take(200).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ErrorKind as Kind;
    use std::io;

    #[test]
    fn every_code_has_its_kind() {
        for (code, detail, kind, temporary) in [
            ("LOADING", "Redis is loading the dataset in memory", ErrorKind::Overloaded, true),
            ("BUSY", "Redis is busy running a script", ErrorKind::Overloaded, true),
            ("CLUSTERDOWN", "", ErrorKind::Overloaded, true),
            ("MOVED", "449 127.0.0.1:1", ErrorKind::Overloaded, true),
            ("TRYAGAIN", "", ErrorKind::Overloaded, true),
            ("MASTERDOWN", "", ErrorKind::Overloaded, true),
            ("NOREPLICAS", "", ErrorKind::Overloaded, true),
            ("ERR", "max number of clients reached", ErrorKind::Overloaded, true),
            ("OOM", "command not allowed", ErrorKind::OutOfSpace, false),
            ("MISCONF", "Redis is configured to save", ErrorKind::OutOfSpace, false),
            ("READONLY", "You can't write", ErrorKind::ReadOnly, false),
            ("WRONGPASS", "invalid username-password pair", ErrorKind::AuthenticationFailed, false),
            ("NOAUTH", "Authentication required.", ErrorKind::AuthenticationFailed, false),
            ("NOPERM", "this user has no permissions", ErrorKind::PermissionDenied, false),
            ("ERR", "DB index is out of range", ErrorKind::ConfigInvalid, false),
            ("CROSSSLOT", "", ErrorKind::Internal, false),
            ("ERR", "something new", ErrorKind::Protocol, false),
        ] {
            let error = from_server(code, detail);
            assert_eq!((error.kind(), error.is_temporary()), (kind, temporary), "{error}");
            assert!(!error.may_be_applied() && error.context().contains(code), "{error}");
        }
    }

    #[test]
    fn a_lost_write_may_be_applied_and_a_lost_read_or_dial_was_nothing() {
        for (error, kind) in
            [(io::ErrorKind::TimedOut, ErrorKind::Timeout), (io::ErrorKind::BrokenPipe, ErrorKind::Unavailable)]
        {
            let error = RedisError::from(io::Error::from(error));
            let write = from_redis(&error, Doing::Write);
            assert!(write.kind() == kind && write.may_be_applied(), "{write}");
            let read = from_redis(&error, Doing::Read);
            assert!(read.kind() == kind && !read.may_be_applied(), "{read}");
            let dial = from_redis(&error, Doing::Dial);
            assert!(dial.kind() == ErrorKind::Unavailable && !dial.may_be_applied(), "{dial}");
        }
        let garbage = RedisError::from((Kind::Parse, "noise"));
        assert!(from_redis(&garbage, Doing::Write).may_be_applied());
        assert_eq!(from_redis(&garbage, Doing::Read).kind(), ErrorKind::Protocol);
    }

    #[test]
    fn no_argument_of_a_command_is_repeated() {
        let detail = "unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'canary'";
        let error = from_server("ERR", detail);
        assert!(
            error.context().contains("unknown command 'HELLO'") && !error.to_string().contains("canary"),
            "{error}"
        );
        let text = from_redis(&RedisError::from((Kind::AuthenticationFailed, "x", detail.to_owned())), Doing::Dial);
        assert!(!format!("{text} {text:?}").contains("canary"), "{text}");
    }

    #[test]
    fn verdicts() {
        let of = |kind| verdict(&RedisError::from((kind, "x")));
        let io = |kind| verdict(&RedisError::from(io::Error::from(kind)));
        assert_eq!(io(io::ErrorKind::TimedOut), Verdict::Silent);
        assert_eq!(io(io::ErrorKind::ConnectionReset), Verdict::Lost);
        assert_eq!(of(Kind::Parse), Verdict::Lost);
        assert_eq!(of(Kind::Server(redis::ServerErrorKind::ReadOnly)), Verdict::Misled);
        assert_eq!(of(Kind::Server(redis::ServerErrorKind::BusyLoading)), Verdict::Alive);
    }
}
