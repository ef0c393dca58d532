//! Why a runtime could not be built.

use std::fmt;

use numart_alloc::topology::{NodeId, TopologyError};

/// Why a runtime could not be built. Every message says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The topology cannot be read or contradicts itself.
    Topology(TopologyError),
    /// Zero workers were asked for.
    NoWorkers,
    /// An empty list of nodes was given.
    NoNodes,
    /// More threads were asked for than a runtime can have.
    TooManyThreads {
        /// Workers and spare threads, of all nodes.
        asked: usize,
        /// As many there can be.
        most: usize,
    },
    /// `use_current_thread` on a thread whose thread-local values are being destroyed: it ends.
    ThreadEnds,
    /// A node was asked for that the machine does not have.
    UnknownNode {
        /// The node.
        node: NodeId,
        /// Those there are.
        nodes: Vec<NodeId>,
    },
    /// A node was asked for that has no CPU this process may use.
    NodeWithoutCpus(NodeId),
    /// An environment variable cannot be understood.
    Variable {
        /// Its name.
        name: &'static str,
        /// What it holds.
        value: String,
    },
    /// A thread could not be started.
    Thread(std::io::Error),
    /// `use_current_thread` on a thread that is a worker already.
    AlreadyWorker,
    /// There is a global runtime already: it was used before it was built.
    GlobalExists,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Topology(error) => error.fmt(f),
            BuildError::NoWorkers => f.write_str(
                "a runtime needs at least one worker: ask for one or more, or leave the number to the machine",
            ),
            BuildError::NoNodes => f.write_str(
                "the list of nodes is empty: name at least one node, or do not call `nodes`, to have them all",
            ),
            BuildError::TooManyThreads { asked, most } => write!(
                f,
                "{asked} threads were asked for (workers, and spare_threads on every node); a runtime has at most {most}: \
                 ask for fewer workers or spare_threads"
            ),
            BuildError::ThreadEnds => f.write_str(
                "this thread is ending and cannot become a worker; call use_current_thread on another thread",
            ),
            BuildError::UnknownNode { node, nodes } => {
                write!(f, "there is no node {node} here; use one of ")?;
                for (i, node) in nodes.iter().enumerate() {
                    write!(f, "{}{node}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            BuildError::NodeWithoutCpus(node) => write!(
                f,
                "node {node} has no CPU that this process may use: it is memory-only, or the affinity mask or cpuset \
                 excludes it; leave it out, or widen the mask (taskset, cpuset.cpus)"
            ),
            BuildError::Variable { name, value } => {
                write!(f, "{name}={value:?} is not a number of workers from 1 up; correct it or unset it")
            }
            BuildError::Thread(error) => write!(
                f,
                "a worker thread could not be started: {error}; raise the thread limit (ulimit -u, pids.max), or ask for \
                 fewer workers or a smaller stack_size"
            ),
            BuildError::AlreadyWorker => {
                f.write_str("this thread is a worker of a runtime already; call use_current_thread on another thread")
            }
            BuildError::GlobalExists => f.write_str(
                "the global runtime has been started already; call build_global before the first spawn, join or stats",
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Topology(error) => Some(error),
            BuildError::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<TopologyError> for BuildError {
    fn from(error: TopologyError) -> Self {
        BuildError::Topology(error)
    }
}
