//! Why a task has no output.

use std::any::Any;
use std::fmt;

use numart_alloc::topology::NodeId;

/// Why a task has no output.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// Its closure panicked.
    Panic(PanicPayload),
    /// The runtime was shut down before it started, or a future's before its end; what it held has been dropped.
    Shutdown,
    /// A task tried to join its own handle, or a job below it did: that can never end. Return the handle to a caller, or
    /// join it elsewhere.
    Own,
    /// All workers of the node wait, and no spare thread is left to run what they wait for. Raise the builder's
    /// `spare_threads`, or join fewer handles inside tasks. The task itself goes on, detached.
    WouldDeadlock,
    /// [`abort`](crate::JoinHandle::abort) was called before its end; what it held has been dropped.
    Aborted,
    /// Its affinity's home is no node of this runtime.
    UnknownNode(NodeId),
}

impl JoinError {
    pub(crate) fn from_panic(payload: Box<dyn Any + Send>) -> JoinError {
        let message = payload
            .downcast_ref::<&'static str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        JoinError::Panic(PanicPayload(Box::new(Caught { message, payload })))
    }

    /// The task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panic(_))
    }

    /// It was ended before its end: by `abort` or by a shutdown.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JoinError::Aborted | JoinError::Shutdown)
    }

    /// The panic's payload, for [`std::panic::resume_unwind`].
    ///
    /// # Errors
    /// Gives the error back if it is not a panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, JoinError> {
        match self {
            JoinError::Panic(panic) => Ok(panic.into_inner()),
            other => Err(other),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panic(panic) => match panic.message() {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
            JoinError::Shutdown => f.write_str("the runtime was shut down before the task ended"),
            JoinError::Aborted => f.write_str("the task was aborted"),
            JoinError::Own => f.write_str("a task cannot join its own handle: the wait would never end"),
            JoinError::WouldDeadlock => f.write_str(
                "every worker of the node waits and no spare thread is left to run what they wait for; raise \
                 Builder::spare_threads",
            ),
            JoinError::UnknownNode(node) => {
                write!(f, "node {node} has no workers in this runtime; Runtime::nodes lists those that have")
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// A panic's payload, with its message if it was a string.
pub struct PanicPayload(Box<Caught>);

/// Boxed, so that the error is two words: every pending task has room for one.
struct Caught {
    message: Option<String>,
    payload: Box<dyn Any + Send>,
}

// SAFETY: `&PanicPayload` gives access to the message only; the payload, which need not be `Sync`, is reached by value.
unsafe impl Sync for PanicPayload {}

impl PanicPayload {
    /// The text given to `panic!`, if any.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The payload itself.
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.0.payload
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload").field(&self.0.message).finish()
    }
}
