//! What a check says when it does not pass.

use std::fmt;

/// Who has to look into a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The backend broke a sentence of the contract.
    Backend,
    /// The kit could not find out: no backend was made, no runtime, a machine too slow for the clock.
    Suite,
}

/// Why a check did not pass. Its text starts with who is to blame: `backend: ` or `suite: `.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    blame: Blame,
    check: &'static str,
    sentence: &'static str,
    text: String,
}

impl Failure {
    /// A broken sentence, which [`of_check`](Self::of_check) adds.
    pub(crate) fn backend(text: impl Into<String>) -> Self {
        Self::new(Blame::Backend, text)
    }

    pub(crate) fn suite(text: impl Into<String>) -> Self {
        Self::new(Blame::Suite, text)
    }

    fn new(blame: Blame, text: impl Into<String>) -> Self {
        Self { blame, check: "", sentence: "", text: text.into() }
    }

    pub(crate) fn of_check(mut self, check: &'static str, sentence: &'static str) -> Self {
        self.check = check;
        self.sentence = sentence;
        self
    }

    /// Who has to look into it.
    #[must_use]
    pub fn blame(&self) -> Blame {
        self.blame
    }

    /// The name of the check.
    #[must_use]
    pub fn check(&self) -> &'static str {
        self.check
    }

    /// What was expected and what came, without the sentence of the contract.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.blame {
            Blame::Backend => {
                write!(f, "backend: {}\n  the contract: {} ({})", self.text, self.sentence, self.check)
            }
            Blame::Suite => write!(f, "suite: {} ({})", self.text, self.check),
        }
    }
}

/// As `Display`: a test that returns a failure is printed with this.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
