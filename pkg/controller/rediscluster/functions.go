/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Redis keeps the libraries of functions per node: a replica gets those of its master, and
// moving slots moves none. Which libraries there are to be, the user says, by loading and
// deleting them on every master. Between two of these commands the masters differ. So nothing
// is written then, and a library that a master had once is never written to it again.

// functions has a new master get the functions of the others, before its first slot.
func functions(o *observed) *plan {
	holders := o.functionHolders()
	difference := o.functionsDiffer()
	if len(holders) == 0 || (len(holders[0].view.Libraries) == 0 && difference == "") {
		return nil
	}
	for _, to := range o.masters() {
		if !to.unused() {
			continue
		}
		if difference != "" {
			return wait(check, "Waiting for all masters to have the same functions, before %s gets slots: %s", to.name, difference)
		}
		return do([]command{{verb: copyFunctions, on: to, peer: holders[0]}}, "%s gets the functions of %s, before it gets slots", to.name, holders[0].name)
	}
	return nil
}

// unused returns whether the member is a master that never had slots, keys or functions. One
// whose functions were deleted is none: that is a write, too.
func (m *member) unused() bool {
	return m.answers() && m.view.Master && m.view.Unwritten && m.view.Keys == 0 && len(m.view.Libraries) == 0 &&
		m.self().Slots.Len() == 0 && len(m.self().Importing) == 0
}

// functionHolders are the masters that answer and have slots: clients call functions there.
func (o *observed) functionHolders() []*member {
	return slices.DeleteFunc(o.holders(), func(m *member) bool { return !m.answers() || !m.view.Master })
}

// functionsDiffer says in which functions two masters differ; "" if all have the same.
func (o *observed) functionsDiffer() string {
	holders := o.functionHolders()
	for _, m := range holders {
		if name := differing(holders[0].view.Libraries, m.view.Libraries); name != "" {
			return fmt.Sprintf("%s and %s do not have the same library %s. Load it on all masters, or delete it on all", holders[0].name, m.name, name)
		}
	}
	return ""
}

// differing returns the first library that is not the same in both; "" if all are.
func differing(a, b map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if a[name] == "" {
			return name
		}
	}
	return ""
}

// onlyHere says what a master without slots has that no master has which stays, and keeps its
// slots; "" if there is nothing.
func (o *observed) onlyHere(m *member) string {
	if !m.answers() || !m.view.Master || o.slots[m.id].Len() > 0 {
		return ""
	}
	if m.view.Keys > 0 {
		return fmt.Sprintf("%d keys", m.view.Keys)
	}
	for _, name := range slices.Sorted(maps.Keys(m.view.Libraries)) {
		if !slices.ContainsFunc(o.functionHolders(), func(other *member) bool { return !o.leaving(other) && other.view.Libraries[name] != "" }) {
			return fmt.Sprintf("the library of functions %s, which no other master has", name)
		}
	}
	return ""
}

// copyFunctions gives a new master the functions of another one, if all masters with slots
// have the same. Whether their code is the same, it asks only now: it can be large.
func (e executor) copyFunctions(ctx context.Context, to, from *member) error {
	dump, err := e.node(from).DumpFunctions(ctx)
	if err != nil {
		return err
	}
	libraries, err := e.node(from).Libraries(ctx)
	if err != nil {
		return err
	}
	for _, other := range e.o.functionHolders() {
		theirs, err := e.node(other).Libraries(ctx)
		if err != nil {
			return err
		}
		if name := differing(libraries, theirs); name != "" {
			return fmt.Errorf("%s and %s do not have the same code of the library %s: load it on all masters", from.name, other.name, name)
		}
	}
	return e.node(to).RestoreFunctions(ctx, dump)
}
