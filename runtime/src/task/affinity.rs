//! Affinities and groups: what outlives tasks and says where they belong. Homes are explicit or the creator's node;
//! nothing moves them yet.

use std::fmt;
use std::sync::Arc;

use numart_alloc::topology::NodeId;

use super::handle::JoinHandle;
use super::spawn::{Destination, SpawnTo, Task};
use crate::runtime::current_registry;
use crate::sched::registry::Registry;

/// The runtime has no workers on that node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNode {
    /// The node asked for.
    pub node: NodeId,
    /// The nodes there are.
    pub nodes: Vec<NodeId>,
}

impl fmt::Display for UnknownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} has no workers in this runtime; use one of ", self.node)?;
        for (i, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownNode {}

pub(crate) fn find_node(registry: &Registry, node: NodeId) -> Result<usize, UnknownNode> {
    registry
        .node_index(node)
        .ok_or_else(|| UnknownNode { node, nodes: registry.nodes.iter().map(|node| node.id).collect() })
}

/// What an [`Affinity`] shares with its tasks.
#[derive(Clone)]
pub(crate) struct AffinityInner {
    registry: Arc<Registry>,
    name: Option<Arc<str>>,
    /// Asked for by `.on`; else the group's home, else the creator's node.
    home: Option<usize>,
    creator: usize,
    strict: bool,
    group: Option<Group>,
}

/// Tasks spawned with one affinity belong together: a warehouse, a tenant, a partition, a connection.
///
/// ```
/// use numart_runtime::{Affinity, Runtime};
/// let runtime = Runtime::builder().topology_text("2x1").build()?;
/// let node = runtime.nodes()[1];
/// let tenant = runtime.affinity().on(node)?.strict().named("tenant 7");
/// assert_eq!(tenant.spawn(numart_runtime::current_node).join()?, Some(node));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Affinity {
    inner: Arc<AffinityInner>,
}

impl Affinity {
    /// An affinity of the current runtime (the global one outside any), at home on the creator's node.
    #[allow(clippy::new_without_default, reason = "it starts the global runtime: not what Default promises")]
    pub fn new() -> Affinity {
        Affinity::of(current_registry())
    }

    pub(crate) fn of(registry: Arc<Registry>) -> Affinity {
        let creator = registry.home_of_caller();
        Affinity {
            inner: Arc::new(AffinityInner { registry, name: None, home: None, creator, strict: false, group: None }),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut AffinityInner)) -> Affinity {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// Its home is `node`, and stays so.
    ///
    /// # Errors
    /// [`UnknownNode`] if the runtime has no workers there.
    pub fn on(self, node: NodeId) -> Result<Affinity, UnknownNode> {
        let home = find_node(&self.inner.registry, node)?;
        Ok(self.with(|inner| inner.home = Some(home)))
    }

    /// Its tasks, and all jobs below them, never run on another node, however long they wait.
    pub fn strict(self) -> Affinity {
        self.with(|inner| inner.strict = true)
    }

    /// A name for statistics and debugging.
    pub fn named(self, name: impl Into<String>) -> Affinity {
        self.with(|inner| inner.name = Some(name.into().into()))
    }

    /// Joins a group. Without a home of its own it takes the group's.
    pub fn group(self, group: &Group) -> Affinity {
        self.with(|inner| inner.group = Some(group.clone()))
    }

    /// The name given by [`Affinity::named`].
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }

    /// The node its next task will go to.
    pub fn home(&self) -> NodeId {
        self.inner.registry.nodes[self.inner.home_index()].id
    }

    /// Spawns a task at its home.
    ///
    /// ```
    /// let affinity = numart_runtime::Affinity::new();
    /// assert_eq!(affinity.spawn(|| 1).join().unwrap(), 1);
    /// ```
    pub fn spawn<M, K>(&self, task: K) -> JoinHandle<K::Output>
    where
        K: Task<M> + Send + 'static,
        K::Output: Send + 'static,
    {
        task.spawn_to(SpawnTo(Destination {
            registry: self.inner.registry.clone(),
            home: self.inner.home_index(),
            strict: self.inner.strict,
            affinity: Some(self.inner.clone()),
            in_line: false,
        }))
    }
}

impl AffinityInner {
    fn home_index(&self) -> usize {
        let of_group = || {
            let group = self.group.as_ref()?;
            // A group of another runtime has no say in this one.
            Arc::ptr_eq(&group.inner.registry, &self.registry).then_some(group.inner.home).flatten()
        };
        self.home.or_else(of_group).unwrap_or(self.creator)
    }
}

impl fmt::Debug for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Affinity")
            .field("name", &self.name())
            .field("home", &self.home())
            .field("strict", &self.inner.strict)
            .field("group", &self.inner.group.as_ref().and_then(Group::name))
            .finish()
    }
}

#[derive(Clone)]
struct GroupInner {
    registry: Arc<Registry>,
    name: Option<Arc<str>>,
    home: Option<usize>,
}

/// Affinities that share memory.
///
/// ```
/// use numart_runtime::{Affinity, Group};
/// let group = Group::new().named("orders");
/// let affinity = Affinity::new().group(&group);
/// assert_eq!(affinity.spawn(|| 2).join().unwrap(), 2);
/// ```
#[derive(Clone)]
pub struct Group {
    inner: Arc<GroupInner>,
}

impl Group {
    /// A group of the current runtime (the global one outside any), without a home.
    #[allow(clippy::new_without_default, reason = "it starts the global runtime: not what Default promises")]
    pub fn new() -> Group {
        Group::of(current_registry())
    }

    pub(crate) fn of(registry: Arc<Registry>) -> Group {
        Group { inner: Arc::new(GroupInner { registry, name: None, home: None }) }
    }

    /// Affinities that join it from now on, and have no home of their own, are at home on `node`.
    ///
    /// # Errors
    /// [`UnknownNode`] if the runtime has no workers there.
    pub fn on(mut self, node: NodeId) -> Result<Group, UnknownNode> {
        let home = find_node(&self.inner.registry, node)?;
        Arc::make_mut(&mut self.inner).home = Some(home);
        Ok(self)
    }

    /// A name for statistics and debugging.
    pub fn named(mut self, name: impl Into<String>) -> Group {
        Arc::make_mut(&mut self.inner).name = Some(name.into().into());
        self
    }

    /// The name given by [`Group::named`].
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.name()).finish_non_exhaustive()
    }
}
