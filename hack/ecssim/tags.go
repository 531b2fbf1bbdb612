// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// maxTags is the largest number of tags of an instance.
const maxTags = 20

// resources returns the instances of ResourceId.N.
func (x *exchange) resources() ([]*machine, *problem) {
	if !strings.EqualFold(x.params.get("ResourceType"), "instance") {
		return nil, &problem{http.StatusNotFound, "InvalidResourceType.NotFound", "The ResourceType provided does not exist in our records."}
	}
	var found []*machine
	for _, id := range x.params.list("ResourceId") {
		m, p := x.find(id)
		if p != nil {
			return nil, p
		}
		found = append(found, m)
	}
	return found, nil
}

func tagResources(x *exchange) (object, *problem) {
	machines, p := x.resources()
	if p != nil {
		return nil, p
	}
	tags := x.params.tags()
	switch {
	case len(machines) == 0:
		return nil, missing("ResourceId.1")
	case len(tags) == 0:
		return nil, missing("Tag.1.Key")
	}
	if p := x.checkTags(); p != nil {
		return nil, p
	}
	for _, m := range machines {
		after := maps.Clone(m.Tags)
		for _, t := range tags {
			after[t.TagKey] = t.TagValue
		}
		if len(after) > maxTags {
			return nil, badRequest("NumberExceed.Tags", "The Tags parameter number is exceed.")
		}
	}
	for _, m := range machines {
		for _, t := range tags {
			m.Tags[t.TagKey] = t.TagValue
		}
	}
	return object{}, nil
}

func untagResources(x *exchange) (object, *problem) {
	machines, p := x.resources()
	keys, all := x.params.list("TagKey"), x.params.is("All")
	switch {
	case p != nil:
		return nil, p
	case len(machines) == 0:
		return nil, missing("ResourceId.1")
	case len(keys) == 0 && !all:
		return nil, missing("TagKey.1")
	}
	for _, m := range machines {
		maps.DeleteFunc(m.Tags, func(key, _ string) bool { return len(keys) == 0 || slices.Contains(keys, key) })
	}
	return object{}, nil
}
