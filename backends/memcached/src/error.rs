//! From what the driver or a server says to an error of ours.

use cachekit_core::{BackendError, ErrorKind, Retry};
use memcache::exp::Error;
use std::io;

/// What was asked for when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Read,
    Write,
}

/// What the outcome of an exchange says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// It answered.
    Alive,
    /// Nothing.
    Unknown,
    /// A connection there was has ended: the server may be well, and another connection work.
    Cut,
    /// There is no connection, no answer, or no sense in it.
    Bad,
}

pub(crate) fn verdict(error: &Error) -> Verdict {
    match bare(error) {
        Error::Io(error) => match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::WriteZero => Verdict::Cut,
            _ => Verdict::Bad,
        },
        Error::Protocol(_) | Error::Timeout { .. } => Verdict::Bad,
        _ => Verdict::Alive,
    }
}

/// Whether the server itself refused the command, which makes the outcome certain.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(bare(error), Error::Rejected(_) | Error::Server(_))
}

/// The driver calls ambiguous whatever was sent and not acknowledged, a plain refusal too.
fn bare(error: &Error) -> &Error {
    match error {
        Error::Ambiguous { source, .. } => source,
        other => other,
    }
}

pub(crate) fn from_driver(error: &Error, doing: Doing) -> BackendError {
    let sent = |ours: BackendError| {
        if error.is_ambiguous() && doing == Doing::Write { ours.maybe_applied() } else { ours }
    };
    match bare(error) {
        Error::Io(cause) if error.is_ambiguous() => {
            sent(BackendError::new(ErrorKind::Unavailable, format!("connection lost: {}", said(&cause.to_string()))))
        }
        Error::Io(cause) => BackendError::new(ErrorKind::Unavailable, said(&cause.to_string())),
        Error::Protocol(_) => sent(not_the_protocol()),
        Error::Rejected(text) => from_rejection(text),
        Error::Server(text) => from_server(text, doing),
        Error::Timeout { .. } if error.is_ambiguous() => silent(doing),
        Error::Timeout { .. } => no_connection(),
        other => sent(BackendError::new(ErrorKind::Internal, said(&other.to_string()))),
    }
}

/// `SERVER_ERROR`: the value was not stored, and memcached has removed the older one too.
fn from_server(text: &str, doing: Doing) -> BackendError {
    let context = format!("the server says {}", said(text));
    match text {
        _ if text.contains("too large") => BackendError::new(ErrorKind::TooLarge, context),
        _ if text.contains("out of memory") => BackendError::new(ErrorKind::OutOfSpace, context),
        // A proxy that did not reach a server behind it says so this way, and knows no more than we do.
        _ if doing == Doing::Write => BackendError::new(ErrorKind::Unavailable, context).maybe_applied(),
        _ => BackendError::new(ErrorKind::Unavailable, context),
    }
}

fn from_rejection(text: &str) -> BackendError {
    if text == "ERROR" {
        // What a server with its most connections says to one more; the driver leaves out the rest of the line. What
        // does not know the commands is found when the backend connects.
        let text = "the server refuses the connection: it may have its most";
        return BackendError::new(ErrorKind::Overloaded, text);
    }
    // The same call gets the same answer.
    let context = format!("the server rejects the command: {}", said(text));
    BackendError::new(ErrorKind::Protocol, context).with_retry(Retry::Permanent)
}

/// Nothing of what came is repeated: it may be a value.
pub(crate) fn not_the_protocol() -> BackendError {
    BackendError::new(ErrorKind::Protocol, "the answer is not memcached's protocol")
}

/// An answer that is well formed, and not one to the command.
pub(crate) fn unexpected(doing: Doing) -> BackendError {
    let error = BackendError::new(ErrorKind::Protocol, "the answer is not one to this command");
    if doing == Doing::Write { error.maybe_applied() } else { error }
}

pub(crate) fn no_connection() -> BackendError {
    BackendError::new(ErrorKind::Unavailable, "no connection in time")
}

pub(crate) fn silent(doing: Doing) -> BackendError {
    let error = BackendError::new(ErrorKind::Timeout, "no answer in time");
    if doing == Doing::Write { error.maybe_applied() } else { error }
}

/// The same error, with the server that it is about.
pub(crate) fn at(name: &str, error: &BackendError) -> BackendError {
    let retry = if error.is_temporary() { Retry::Temporary } else { Retry::Permanent };
    let named = BackendError::new(error.kind(), format!("{name}: {}", error.context())).with_retry(retry);
    if error.may_be_applied() { named.maybe_applied() } else { named }
}

/// What may be repeated of a text from outside.
fn said(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ambiguous(source: Error) -> Error {
        Error::Ambiguous { key: b"k".to_vec(), source: Box::new(source) }
    }

    fn io(kind: io::ErrorKind) -> Error {
        Error::Io(kind.into())
    }

    #[test]
    fn what_the_server_says_is_certain_however_the_driver_calls_it() {
        for (text, kind) in [
            ("out of memory storing object", ErrorKind::OutOfSpace),
            ("object too large for cache", ErrorKind::TooLarge),
        ] {
            let error = from_driver(&ambiguous(Error::Server(text.to_owned())), Doing::Write);
            assert!(error.kind() == kind && !error.may_be_applied() && !error.is_temporary(), "{error}");
            assert_eq!(verdict(&ambiguous(Error::Server(text.to_owned()))), Verdict::Alive);
        }
        let error = from_driver(&ambiguous(Error::Rejected("ERROR".to_owned())), Doing::Write);
        assert!(error.kind() == ErrorKind::Overloaded && !error.may_be_applied() && error.is_temporary(), "{error}");
        let error = from_driver(&ambiguous(Error::Rejected("bad data chunk".to_owned())), Doing::Write);
        assert!(error.kind() == ErrorKind::Protocol && !error.may_be_applied() && !error.is_temporary(), "{error}");
        let error = from_driver(&ambiguous(Error::Server("timed out".to_owned())), Doing::Write);
        assert!(error.kind() == ErrorKind::Unavailable && error.may_be_applied(), "a proxy: {error}");
    }

    #[test]
    fn a_write_that_was_sent_may_be_applied_and_one_that_was_not_is_nothing() {
        let lost = from_driver(&ambiguous(io(io::ErrorKind::ConnectionReset)), Doing::Write);
        assert!(lost.kind() == ErrorKind::Unavailable && lost.may_be_applied(), "{lost}");
        let refused = from_driver(&io(io::ErrorKind::ConnectionRefused), Doing::Write);
        assert!(refused.kind() == ErrorKind::Unavailable && !refused.may_be_applied(), "{refused}");
        let noise = from_driver(&ambiguous(Error::Protocol("canary".to_owned())), Doing::Write);
        assert!(noise.kind() == ErrorKind::Protocol && noise.may_be_applied(), "{noise}");
        assert!(!format!("{noise:?}").contains("canary"));
        let dial = from_driver(&Error::Timeout { key: b"k".to_vec() }, Doing::Write);
        assert!(dial.kind() == ErrorKind::Unavailable && !dial.may_be_applied(), "{dial}");
        assert!(silent(Doing::Write).may_be_applied() && !silent(Doing::Read).may_be_applied());
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(&io(io::ErrorKind::UnexpectedEof)), Verdict::Cut);
        assert_eq!(verdict(&ambiguous(io(io::ErrorKind::ConnectionReset))), Verdict::Cut);
        assert_eq!(verdict(&io(io::ErrorKind::ConnectionRefused)), Verdict::Bad);
        assert_eq!(verdict(&Error::Protocol(String::new())), Verdict::Bad);
        assert_eq!(verdict(&Error::Rejected("ERROR".to_owned())), Verdict::Alive);
        assert!(Verdict::Bad > Verdict::Cut && Verdict::Cut > Verdict::Alive);
    }

    #[test]
    fn the_name_of_the_server_changes_nothing_else() {
        let error = at("h:1", &silent(Doing::Write));
        assert_eq!((error.kind(), error.context()), (ErrorKind::Timeout, "h:1: no answer in time"));
        assert!(error.may_be_applied() && error.is_temporary());
        let permanent = BackendError::new(ErrorKind::Protocol, "x").with_retry(Retry::Permanent);
        assert!(!at("h:1", &permanent).is_temporary());
    }
}
