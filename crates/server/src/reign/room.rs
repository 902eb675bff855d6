//! Whether there is room for one more of what clients make. Pure.
//!
//! Invariant: what stands and what is about to stand is never more than the bound; a task that is known
//! needs no room, so that a creation that is repeated is answered as the first was.

use std::collections::{BTreeMap, BTreeSet};

use sterna_api::rest::{Code, Refused};
use sterna_engine::control::{Call, CallId, Made};
use sterna_model::Bytes;

use crate::bounds::Bounds;

/// Room for what clients make.
#[derive(Debug)]
pub(super) struct Room {
    bounds: Bounds,
    /// Creations of tasks that the leader has taken and that do not stand yet.
    making: BTreeSet<CallId>,
    /// What the specs take that the leader has taken and that do not stand yet, and all of them together.
    heavy: BTreeMap<CallId, u64>,
    heavy_bytes: u64,
}

/// What there is when a call comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct There {
    /// Tasks that are not over, by the store.
    pub(super) tasks: usize,
    /// Tasks that are over, and whose callback is still tried, by the store.
    pub(super) telling: usize,
    /// Whether a task has the name that the call asks for, or had it.
    pub(super) is_known: bool,
    /// Whether the name of one more task can be kept when it is over.
    pub(super) has_room_for_names: bool,
    /// Whether one more can be kept until somebody deletes it.
    pub(super) has_room_for_kept_names: bool,
    /// Everything else, as it is going to stand, and what the call adds.
    pub(super) made: Made,
    pub(super) adds: Made,
    /// What specs take, by the store, and what that of the call takes more.
    pub(super) specs_bytes: u64,
    pub(super) adds_bytes: u64,
}

impl Room {
    pub(super) const fn new(bounds: Bounds) -> Self {
        Self { bounds, making: BTreeSet::new(), heavy: BTreeMap::new(), heavy_bytes: 0 }
    }

    /// Takes a call, or says why not.
    pub(super) fn take(&mut self, id: CallId, call: &Call, there: There) -> Result<(), Refused> {
        let Bounds { services, instances, domains, definitions, .. } = self.bounds;
        let There { made, adds, .. } = there;
        fits((made.services, adds.services), services, ("services", "--services-max"))?;
        fits((made.instances, adds.instances), instances, ("instances", "--instances-max"))?;
        fits((made.domains, adds.domains), domains, ("domains", "--domains-max"))?;
        let of_definitions = ("definitions", "--definitions-max");
        fits((made.definitions, adds.definitions), definitions, of_definitions)?;
        self.bears(there)?;
        if !matches!(call, Call::CreateTask(..)) || there.is_known {
            self.bear(id, there);
            return Ok(());
        }
        if there.tasks.saturating_add(self.making.len()) >= self.bounds.tasks {
            return Err(self.full());
        }
        if let Call::CreateTask(_, _, spec) = call
            && spec.callback.is_some()
            && there.telling >= self.bounds.tasks
        {
            let message = format!(
                "{} tasks are over, and their callbacks are not delivered yet",
                there.telling
            );
            let remedy = "check the receivers of callbacks: `GET /v1/namespaces/{namespace}/tasks?phase=resolving` lists the \
                          tasks; the leader gives each callback up after its last try; `sterna server \
                          --tasks-max` sets the limit";
            return Err(refused(message, remedy));
        }
        if let Call::CreateTask(_, _, spec) = call
            && spec.keeps_name
            && !there.has_room_for_kept_names
        {
            let message = "the limit of kept names of started versions is reached";
            let remedy = "free names of old versions with `sterna delete --name`, or start the servers with a larger \
                          --keep-names-max";
            return Err(refused(message.to_owned(), remedy));
        }
        if !there.has_room_for_names {
            let message = "the limit of kept names of finished tasks is reached, and a client may still retry the oldest";
            let remedy = "wait a few minutes, or create tasks more slowly; `sterna server --keep-names-max` sets the limit";
            return Err(refused(message.to_owned(), remedy));
        }
        self.making.insert(id);
        self.bear(id, there);
        Ok(())
    }

    /// Whether specs do not take more than they may.
    fn bears(&self, there: There) -> Result<(), Refused> {
        let (max, more) = (self.bounds.specs_bytes, there.adds_bytes);
        let bytes = there.specs_bytes.saturating_add(self.heavy_bytes);
        if more == 0 || bytes.saturating_add(more) <= max {
            return Ok(());
        }
        let max = Bytes::new(max);
        let message = format!(
            "the specs of services, definitions and unfinished tasks take {bytes} bytes; {more} more would exceed \
             the limit of {max}"
        );
        let remedy = "wait until a task is over, cancel one with `sterna cancel`, or delete a service or a \
                      definition; `sterna server --specs-max` sets the limit";
        Err(refused(message, remedy))
    }

    fn bear(&mut self, id: CallId, there: There) {
        if there.adds_bytes > 0 {
            self.heavy_bytes += there.adds_bytes;
            self.heavy.insert(id, there.adds_bytes);
        }
    }

    /// A call was answered: what it has made stands.
    pub(super) fn answered(&mut self, id: CallId) {
        self.making.remove(&id);
        self.heavy_bytes -= self.heavy.remove(&id).unwrap_or_default();
    }

    fn full(&self) -> Refused {
        let max = self.bounds.tasks;
        let tasks = if max == 1 { "task is" } else { "tasks are" };
        let message = format!("{max} {tasks} not over yet, which is the limit");
        let remedy = "wait until one is over, or cancel one with `sterna cancel`; `sterna server --tasks-max` sets the \
                      limit";
        refused(message, remedy)
    }
}

/// Whether so many more of something fit below its bound.
pub(crate) fn fits(
    (there, more): (usize, usize),
    max: usize,
    (what, option): (&str, &str),
) -> Result<(), Refused> {
    if more == 0 || there.saturating_add(more) <= max {
        return Ok(());
    }
    let message = format!("there are {there} {what}; {more} more would exceed the limit of {max}");
    let remedy = format!("delete some first, or start `sterna server` with a larger {option}");
    Err(refused(message, &remedy))
}

fn refused(message: String, remedy: &str) -> Refused {
    Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sterna_api::spec::{Source, read};
    use sterna_model::{TaskIncarnation, WallTime};

    use super::*;

    fn create(name: &str) -> Call {
        let text = "version = 1\n[task.t]\nrun = [\"true\"]\n";
        let specs = read(&[Source { name: "t.toml", text }]).unwrap();
        let task = specs.tasks.into_values().next().unwrap();
        let spec = Arc::new(task.made_at(WallTime::EPOCH));
        let key = format!("default/task/{name}").parse().unwrap();
        Call::CreateTask(key, TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]), spec)
    }

    fn room(tasks: usize) -> Room {
        let (services, instances, domains, definitions) = (2, 10, 1, 3);
        let bounds =
            Bounds { tasks, services, instances, domains, definitions, ..Bounds::default() };
        Room::new(bounds)
    }

    fn there(tasks: usize) -> There {
        let (made, adds) = (Made::default(), Made::default());
        There {
            tasks,
            telling: 0,
            is_known: false,
            has_room_for_names: true,
            has_room_for_kept_names: true,
            made,
            adds,
            specs_bytes: 0,
            adds_bytes: 0,
        }
    }

    #[test]
    fn what_is_about_to_stand_takes_room_too() {
        let mut room = room(3);
        let take = |room: &mut Room, id, standing| {
            room.take(CallId(id), &create("t"), there(standing)).is_ok()
        };
        assert!(take(&mut room, 1, 1) && take(&mut room, 2, 1), "there is room for two");
        assert!(!take(&mut room, 3, 1), "they are on their way");
        // One stands now; the other is still on its way.
        room.answered(CallId(1));
        assert!(!take(&mut room, 4, 2));
        // One is over.
        assert!(take(&mut room, 5, 1));
    }

    #[test]
    fn what_is_known_and_what_makes_nothing_needs_no_room() {
        let mut room = room(0);
        let known = There { is_known: true, ..there(9) };
        assert!(room.take(CallId(1), &create("t"), known).is_ok());
        let cancel = Call::CancelTask("default/task/t".parse().unwrap());
        assert!(room.take(CallId(2), &cancel, there(9)).is_ok());
        let refused = room.take(CallId(3), &create("t"), there(9)).unwrap_err();
        assert_eq!(refused.code, Code::TooMuch);
        assert!(refused.remedy.contains("--tasks-max"), "{}", refused.remedy);
    }

    #[test]
    fn a_task_whose_name_could_not_be_kept_is_refused() {
        let full = There { has_room_for_names: false, ..there(0) };
        let refused = room(3).take(CallId(1), &create("t"), full).unwrap_err();
        assert_eq!(refused.code, Code::TooMuch);
        assert!(refused.remedy.contains("--keep-names-max"), "{}", refused.remedy);
        assert!(room(3).take(CallId(1), &create("t"), There { is_known: true, ..full }).is_ok());
    }

    /// No time frees those: everybody's tasks were refused.
    #[test]
    fn a_version_whose_name_could_not_be_kept_is_refused_and_other_tasks_are_not() {
        let full = There { has_room_for_kept_names: false, ..there(0) };
        let Call::CreateTask(key, incarnation, spec) = create("t") else { panic!("it creates") };
        let kept = sterna_model::spec::TaskSpec { keeps_name: true, ..(*spec).clone() };
        let version = Call::CreateTask(key, incarnation, Arc::new(kept));
        let refused = room(3).take(CallId(1), &version, full).unwrap_err();
        assert!(refused.remedy.contains("sterna delete --name"), "{}", refused.remedy);
        assert!(room(3).take(CallId(1), &create("t"), full).is_ok());
    }

    #[test]
    fn what_specs_take_has_a_bound_and_what_is_on_its_way_counts() {
        let mut room = Room::new(Bounds { specs_bytes: 1_000, ..Bounds::default() });
        let heavy = |specs_bytes, adds_bytes| There { specs_bytes, adds_bytes, ..there(0) };
        assert!(room.take(CallId(1), &create("t"), heavy(100, 500)).is_ok());
        let refused = room.take(CallId(2), &create("t"), heavy(100, 500)).unwrap_err();
        assert_eq!(refused.code, Code::TooMuch);
        assert!(refused.message.contains("take 600 bytes; 500 more would exceed"), "{refused:?}");
        assert!(refused.remedy.contains("--specs-max"), "{refused:?}");
        assert!(room.take(CallId(3), &create("t"), heavy(100, 400)).is_ok(), "just so much");
        assert!(room.take(CallId(4), &create("t"), heavy(5_000, 0)).is_ok(), "it adds nothing");
        room.answered(CallId(1));
        room.answered(CallId(4));
        assert!(room.take(CallId(5), &create("t"), heavy(100, 500)).is_ok());
    }

    #[test]
    fn services_instances_domains_and_definitions_have_their_bounds() {
        let call = Call::DeleteService(sterna_model::ServiceKey {
            namespace: sterna_model::Namespace::default(),
            name: sterna_model::Name::new("web").unwrap(),
        });
        let take = |made, adds| room(0).take(CallId(1), &call, There { made, adds, ..there(0) });
        let of = |services, instances, domains, definitions| Made {
            services,
            instances,
            domains,
            definitions,
        };
        assert!(take(of(1, 9, 0, 2), of(1, 1, 1, 1)).is_ok(), "just so many");
        for (made, option) in [
            (of(2, 0, 0, 0), "--services-max"),
            (of(0, 10, 0, 0), "--instances-max"),
            (of(0, 0, 1, 0), "--domains-max"),
            (of(0, 0, 0, 3), "--definitions-max"),
        ] {
            let refused = take(made, of(1, 1, 1, 1)).unwrap_err();
            assert_eq!(refused.code, Code::TooMuch);
            assert!(refused.remedy.contains(option), "{}", refused.remedy);
            assert!(take(made, of(0, 0, 0, 0)).is_ok(), "what adds nothing is never refused");
        }
    }
}
