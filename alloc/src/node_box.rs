//! A value in pages of its own, on a given node.

use std::ops::Deref;
use std::ptr::NonNull;

use crate::sys::{Pages, SysError, prefer_node};
use crate::topology::NodeId;

/// Like `Box`, but the value lies in pages of its own, which the kernel is asked to put on one node *before* they are
/// touched. For what one worker uses all the time and was made by another thread.
///
/// ```
/// use numart_alloc::{NodeBox, topology::NodeId};
///
/// let (value, denied) = NodeBox::new([7u64; 100], Some(NodeId(0)));
/// assert_eq!(value[99], 7);
/// if let Some(error) = denied {
///     println!("it lies where the kernel likes: {error}");
/// }
/// ```
pub struct NodeBox<T> {
    value: NonNull<T>,
    /// `None`: the value is in an ordinary box.
    pages: Option<Pages>,
}

// SAFETY: it owns its value, as a Box does.
unsafe impl<T: Send> Send for NodeBox<T> {}
// SAFETY: it gives out shared references only, as a Box.
unsafe impl<T: Sync> Sync for NodeBox<T> {}

impl<T> NodeBox<T> {
    /// Puts the value on `node`, or on the heap for `None`. What the kernel refuses comes back beside it: the value is
    /// then where the kernel or the heap put it.
    pub fn new(value: T, node: Option<NodeId>) -> (NodeBox<T>, Option<SysError>) {
        let Some(node) = node else { return (NodeBox::on_heap(value), None) };
        // Pages are aligned enough for all but exotic types, and those have no business here.
        assert!(align_of::<T>() <= 4096, "aligned beyond a page");
        let pages = match Pages::new(size_of::<T>()) {
            Ok(pages) => pages,
            Err(error) => return (NodeBox::on_heap(value), Some(error)),
        };
        let denied = prefer_node(pages.range(), node).err();
        let place = pages.as_ptr().cast::<T>();
        // SAFETY: freshly mapped, large enough, aligned to a page, and ours alone.
        unsafe { place.write(value) };
        (NodeBox { value: NonNull::new(place).expect("a mapping is not at 0"), pages: Some(pages) }, denied)
    }

    fn on_heap(value: T) -> NodeBox<T> {
        NodeBox { value: NonNull::from(Box::leak(Box::new(value))), pages: None }
    }
}

impl<T> Drop for NodeBox<T> {
    fn drop(&mut self) {
        match &self.pages {
            // SAFETY: written by `new`, dropped once; the pages go after it.
            Some(_) => unsafe { self.value.drop_in_place() },
            // SAFETY: leaked by `on_heap`, freed once.
            None => drop(unsafe { Box::from_raw(self.value.as_ptr()) }),
        }
    }
}

impl<T> Deref for NodeBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: alive as long as we are.
        unsafe { self.value.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_value_is_dropped_once_wherever_it_lies() {
        let count = Arc::new(());
        for node in [None, Some(NodeId(0)), Some(NodeId(1_000))] {
            let (value, denied) = NodeBox::new((count.clone(), [1u8; 5_000]), node);
            assert_eq!((Arc::strong_count(&value.0), value.1[4_999]), (2, 1));
            // No machine of ours has node 1000.
            assert_eq!(denied.is_some_and(|error| error.call() == "mbind"), node == Some(NodeId(1_000)));
            drop(value);
            assert_eq!(Arc::strong_count(&count), 1);
        }
    }
}
