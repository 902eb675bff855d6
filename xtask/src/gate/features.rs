use crate::workspace::Package;

/// The arguments that choose features for one check of one package.
///
/// Features only ever add, so none, each and all (the clippy step) stand for every combination.
/// A package without features is the same each time and is left out. Each package is checked
/// alone: together with its neighbours it would also get the features that *they* ask for, and a
/// missing one would not be noticed.
pub(super) fn selections(packages: &[Package]) -> Vec<Vec<String>> {
    let mut selections = Vec::new();
    for package in packages.iter().filter(|package| !package.features.is_empty()) {
        let none = ["--package", &package.name, "--no-default-features"].map(str::to_owned);
        selections.push(none.to_vec());
        for feature in &package.features {
            let mut one = none.to_vec();
            one.extend(["--features".to_owned(), feature.clone()]);
            selections.push(one);
        }
    }
    selections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, features: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            ..Package::default()
        }
    }

    #[test]
    fn a_package_is_checked_with_none_and_with_each() {
        let packages = [package("model", &[]), package("store", &["etcd", "postgres"])];
        let lines: Vec<_> = selections(&packages).iter().map(|args| args.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "--package store --no-default-features",
                "--package store --no-default-features --features etcd",
                "--package store --no-default-features --features postgres",
            ]
        );
    }
}
