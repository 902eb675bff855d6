//! Why nobody got it, found out only for what was left over.

use sterna_model::{Amounts, Name, Zones};

use super::{
    bidder::{Bidder, Standing},
    class::{Flat, Room},
    place::Search,
    reason::Reason,
    registry::Registry,
    score::Score,
};

impl Registry {
    /// Why nobody got it. The rules are asked in the order in which they bind: what no change of
    /// load can mend comes first.
    pub(super) fn diagnose(&self, search: &Search<'_>) -> Reason {
        if self.is_empty() {
            return Reason::NoWorker;
        }
        let everywhere = self.zone_order.iter().any(|zone| self.has_class(search, *zone));
        if !everywhere {
            return self.no_class(search);
        }
        let zones = self.zones_for(search);
        if !zones.iter().any(|zone| self.has_class(search, *zone)) {
            let zone = zones.first().and_then(|zone| self.zones[*zone].name.clone());
            return Reason::NoZone { zone };
        }
        self.no_room(search, &zones)
    }

    fn has_class(&self, search: &Search<'_>, zone: u32) -> bool {
        !self.classes_in(search.profile, zone).is_empty()
    }

    /// The zones that come into question.
    fn zones_for(&self, search: &Search<'_>) -> Vec<u32> {
        let is_instance = search.ask.key.instance().is_some();
        match search.ask.wants.constraints.zones {
            Zones::Pinned if is_instance => self.pinned_zones(search.ask).collect(),
            Zones::Pinned | Zones::Spread => self.zone_order.clone(),
        }
    }

    /// Nobody has the stack, or nobody of those has the tags.
    fn no_class(&self, search: &Search<'_>) -> Reason {
        let constraints = &search.ask.wants.constraints;
        let of_stack = self
            .classes
            .iter()
            .filter(|(_, class)| class.key.has_stack(constraints.stack.as_ref()));
        let nearest = of_stack
            .filter_map(|(_, class)| {
                let (missing, unasked) = class.key.differences(&constraints.tags);
                let id = *class.members.first()?;
                Some((missing.len() + unasked.len(), id, missing, unasked))
            })
            .min();
        match (nearest, &constraints.stack) {
            (Some((_, id, missing, unasked)), Some(_) | None) => {
                Reason::NoTags { nearest: self.name_of(id), missing, unasked }
            }
            (None, Some(stack)) => {
                let known = self.classes.iter().filter_map(|(_, class)| class.key.stack.clone());
                Reason::NoStack { stack: stack.clone(), known: known.collect() }
            }
            // Without a stack everybody is asked for the tags.
            (None, None) => Reason::NoWorker,
        }
    }

    /// There are workers for it, and none has room.
    fn no_room(&self, search: &Search<'_>, zones: &[u32]) -> Reason {
        let classes = zones.iter().flat_map(|zone| self.classes_in(search.profile, *zone));
        let members = classes.flat_map(|class| &self.classes[*class].members);
        let members = members.filter_map(|id| Some((*id, self.bidder(*id)?)));
        let large = |(_, bidder): &(u32, &Bidder)| search.demand.fits(bidder.pool().total());
        let mut larges = members.clone().filter(large).peekable();
        if larges.peek().is_none() {
            let missed =
                |(id, bidder): (u32, &Bidder)| (missed(search.demand, bidder.pool().total()), id);
            let nearest = members.map(missed).min().map_or(0, |(_, id)| id);
            let lacks =
                self.bidder(nearest).map(|bidder| search.demand.lacks(bidder.pool().total()));
            let nearest = self.name_of(nearest);
            return Reason::TooLarge { nearest, lacks: lacks.unwrap_or_default() };
        }
        let takes = |(_, bidder): &(u32, &Bidder)| bidder.standing == Standing::Taking;
        if !larges.clone().any(|large| takes(&large)) {
            let first = larges.clone().map(|(id, _)| id).min().unwrap_or(0);
            return Reason::Withheld { nearest: self.name_of(first), workers: larges.count() };
        }
        if let Some(limit) = self.rules.start_limit
            && self.starting >= limit
        {
            return Reason::StartLimit { limit };
        }
        self.apart(search).unwrap_or_else(|| self.short(search, zones))
    }

    /// Somebody would have room, but for who is there.
    fn apart(&self, search: &Search<'_>) -> Option<Reason> {
        let Search { ask, demand, service, profile, ref avoid } = *search;
        if avoid.is_empty() {
            return None;
        }
        let anybody = Search { ask, demand, service, profile, avoid: Vec::new() };
        let (_, id) = self.best(&anybody)?;
        let bidder = self.bidder(id)?;
        // The first by name: its number here depends on what came before.
        let there = avoid.iter().filter(|service| bidder.count(**service) > 0);
        let from = there.map(|service| &self.services[*service].name).min()?;
        Some(Reason::Apart { nearest: bidder.name.clone(), from: from.clone() })
    }

    /// Who lacks least, of those that could hold it.
    fn short(&self, search: &Search<'_>, zones: &[u32]) -> Reason {
        let mut best: Option<(Score, u32)> = None;
        for class in zones.iter().flat_map(|zone| self.classes_in(search.profile, *zone)) {
            let class = &self.classes[*class];
            let need = class.flat(search.demand);
            let bound = |room: &Room| Some(missed_flat(&need, &room.free));
            let mut judge = |id, _: &Room| {
                let pool = self.bidder(id)?.pool();
                let is_large = search.demand.fits(pool.total());
                is_large.then(|| missed(search.demand, pool.free()))
            };
            class.tree.best(&bound, &mut judge, &mut best);
        }
        let id = best.map_or(0, |(_, id)| id);
        let lacks = self.bidder(id).map(|bidder| search.demand.lacks(bidder.pool().free()));
        Reason::Short { nearest: self.name_of(id), lacks: lacks.unwrap_or_default() }
    }

    fn name_of(&self, id: u32) -> Name {
        self.bidder(id).expect("only workers that are there are near").name.clone()
    }
}

/// How far `free` is from enough: the parts of each demand that lack, added up.
fn missed(demand: &Amounts, free: &Amounts) -> Score {
    let lacks = demand.lacks(free);
    lacks.iter().fold(Score::ZERO, |sum, lack| sum.plus(part(lack.asked, lack.free)))
}

/// The same of what a room knows, and so never more.
fn missed_flat(need: &Flat, free: &Flat) -> Score {
    need.iter().zip(free).fold(Score::ZERO, |sum, (need, free)| sum.plus(part(*need, *free)))
}

fn part(asked: u64, free: u64) -> Score {
    match asked.saturating_sub(free) {
        0 => Score::ZERO,
        missing => Score::of(missing as f64 / asked as f64),
    }
}
