//! User names, looked up once each.

use std::collections::HashMap;

use nix::unistd::{Uid, User};

/// Cache of user names: a survey asks for the same few over and over.
#[derive(Debug, Default)]
pub struct Users {
    names: HashMap<u32, String>,
}

impl Users {
    /// Name of `uid`, or its number where the system knows no name for it.
    pub fn name(&mut self, uid: u32) -> String {
        self.names
            .entry(uid)
            .or_insert_with(|| match User::from_uid(Uid::from_raw(uid)) {
                Ok(Some(user)) => user.name,
                _ => uid.to_string(),
            })
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_users() {
        let mut users = Users::default();
        assert_eq!(users.name(0), "root");
        assert_eq!(users.name(3_999_999_991), "3999999991");
    }
}
