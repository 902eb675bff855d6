//! The words of Sterna: ids, times, amounts, names and selectors.
