//! What can go wrong before and around a guest, each with what to do about it.

use std::fmt;
use std::path::Path;

#[derive(Debug)]
pub enum Error {
    /// A program or package is not there.
    Missing { what: String, remedy: String },
    /// A machine description or the command line is wrong.
    Description(String),
    /// A program that the runner needs failed.
    Program(String),
    /// The guest was still running at its time limit.
    TimeLimit { seconds: u64, console: String },
    /// The guest ended without saying how its program did.
    NoStatus { console: String },
    /// A system call failed.
    System(String),
}

impl Error {
    pub fn file(path: &Path, error: &std::io::Error) -> Error {
        Error::System(format!("{}: {error}", path.display()))
    }

    pub fn system(what: &str, error: &std::io::Error) -> Error {
        Error::System(format!("{what}: {error}"))
    }

    /// The runner's exit code: as `timeout` for a time limit, and two that no test program has.
    pub fn code(&self) -> u8 {
        match self {
            Error::TimeLimit { .. } => 124,
            Error::NoStatus { .. } => 125,
            _ => 126,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing { what, remedy } => write!(f, "{what} is missing; this brings it:\n    {remedy}"),
            Error::Description(why) | Error::Program(why) | Error::System(why) => f.write_str(why),
            Error::TimeLimit { seconds, console } => {
                write!(f, "the guest was killed at its time limit of {seconds} s; its console ends:\n{console}")
            }
            Error::NoStatus { console } => {
                write!(f, "the guest ended without an exit status; its console ends:\n{console}")
            }
        }
    }
}

impl std::error::Error for Error {}
