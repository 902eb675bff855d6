//! Things with a number each; a number that was given back is given again, the newest first.

use std::ops::{Index, IndexMut};

/// See the door of this file.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    things: Vec<Option<T>>,
    unused: Vec<u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { things: Vec::new(), unused: Vec::new() }
    }
}

impl<T> Numbered<T> {
    pub(crate) fn add(&mut self, thing: T) -> u32 {
        if let Some(number) = self.unused.pop() {
            self.things[number as usize] = Some(thing);
            return number;
        }
        self.things.push(Some(thing));
        u32::try_from(self.things.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take();
        if thing.is_some() {
            self.unused.push(number);
        }
        thing
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number as usize)?.as_ref()
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.things).filter_map(|(number, thing)| Some((number, thing.as_ref()?)))
    }
}

/// Numbers come from [`Numbered::add`] and are not used after [`Numbered::remove`].
impl<T> Index<u32> for Numbered<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.things[number as usize].as_ref().expect("a number is used only while it is given")
    }
}

impl<T> IndexMut<u32> for Numbered<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.things[number as usize].as_mut().expect("a number is used only while it is given")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_back_is_given_again() {
        let mut things = Numbered::default();
        let numbers: Vec<u32> = ["a", "b", "c"].map(|thing| things.add(thing)).to_vec();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(things.remove(1), Some("b"));
        assert_eq!((things.remove(1), things.get(1)), (None, None));
        assert_eq!(things.iter().collect::<Vec<_>>(), [(0, &"a"), (2, &"c")]);
        assert_eq!(things.add("d"), 1);
        assert_eq!(things[1], "d");
    }
}
