// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// created has Pods that were created with this config, as "maxmemory 96mb, timeout 0". The spec has another one.
func created(config, wants string) alter {
	return func(o *observed) {
		o.Object.Spec.Config = configOf(config)
		was := manifest.Revision(o.Object)
		o.configs = map[string]map[string]v1.ConfigValue{was: configOf(config)}
		for _, m := range o.Members {
			m.Pod.Annotations[manifest.AnnotationRevision] = was
		}
		o.Object.Spec.Config = configOf(wants)
	}
}

func configOf(text string) map[string]v1.ConfigValue {
	config := map[string]v1.ConfigValue{}
	for line := range strings.SplitSeq(text, ", ") {
		if name, value, ok := strings.Cut(line, " "); ok {
			config[name] = v1.ConfigValue(value)
		}
	}
	return config
}

// running has nodes say that they have these directives.
func running(text string, ordinals ...int) alter {
	return changed(func(m *member) {
		m.directives = map[string]string{}
		for name, value := range configOf(text) {
			m.directives[name] = string(value)
		}
	}, ordinals...)
}

// recorded has Pods on which the operator has set directives: these are the values before.
func recorded(before map[string]*string, ordinals ...int) alter {
	return podIs(func(p *corev1.Pod) { p.Annotations[AnnotationDirectives] = directivesText(before) }, ordinals...)
}

func ruled(rules directiveRules) alter { return func(o *observed) { o.rules = rules } }

func fixed(names ...string) directiveRules {
	all := map[[2]string]bool{}
	for _, name := range names {
		all[[2]string{v1.DefaultImage, name}] = true
	}
	return directiveRules{fixed: all}
}

// all are the ordinals of six.
var all = []int{0, 1, 2, 3, 4, 5}

func TestDecideDirectives(t *testing.T) {
	setting := func(names string, ordinals ...int) decision {
		return waitsBriefly("Setting directives in").making(every("set directives of demo-%d "+names, ordinals...)...)
	}
	rolls := sends("evict Pod demo-3")
	larger, wasNone := created("", "maxmemory 97mb"), recorded(map[string]*string{"maxmemory": ptr.To("0")}, all...)
	none, now := running("maxmemory 0", all...), running("maxmemory 101711872", all...)
	unknown := recorded(map[string]*string{"maxmemory": nil}, all...)
	cases{
		{"as the spec says", with(six(), created("maxmemory 96mb", "maxmemory 96mb"), running("", all...)), settledIs},
		{"another value", with(six(), created("maxmemory 96mb", "maxmemory 97mb"), running("maxmemory 100663296", all...)),
			setting("maxmemory", all...)},
		{"one that was set", with(six(), larger, now, wasNone), settledIs},
		{"one that was set by hand is recorded", with(six(), larger, now), setting("maxmemory", all...)},
		{"a container that restarted", with(six(), larger, now, running("maxmemory 0", 2), wasNone), setting("maxmemory", 2)},
		{"the value of redis.conf again, which was another one in between",
			with(six(), created("maxmemory 96mb", "maxmemory 96mb"), now, unknown), setting("maxmemory", all...)},
		{"one less, and it was set: the value before", with(six(), created("", ""), now, wasNone), setting("maxmemory", all...)},
		{"one less, and it is as before", with(six(), created("", ""), none, wasNone), settledIs},
		{"one less, and its default is unknown", with(six(), created("", ""), running("", all...), unknown), rolls},
		{"one less, with which the Pods were created", with(six(), created("maxmemory 96mb", ""), running("", all...), wasNone), rolls},
		{"one less, and Redis refuses the value before", with(six(), created("", ""), ruled(fixed("maxmemory")), now, wasNone), rolls},
		{"one that Redis sets only at its start",
			with(six(), created("", "databases 32"), ruled(fixed("databases")), running("databases 16", all...)), rolls},
		{"one that Redis sets only at its start, as it was",
			with(six(), created("databases 32", "databases 32"), ruled(fixed("databases")), running("databases 32", all...)), settledIs},
		{"without CONFIG", with(six(), larger, ruled(fixed(anyDirective))), rolls},
		{"before a roll, all that can be set is tried",
			with(six(), created("", "databases 32, maxmemory 97mb"), ruled(fixed("databases")), running("databases 16, maxmemory 0", all...)),
			setting("maxmemory", all...)},
		{"before a roll for another reason",
			with(six(), larger, none, func(o *observed) { o.Object.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "a"} }),
			setting("maxmemory", all...)},
		{"unknown to Redis, and it is to have another image",
			with(six(), created("", "new 1"), running("", all...), func(o *observed) { o.Object.Spec.Image = "redis:8" }), rolls},
		{"unknown to Redis, but its redis.conf has it",
			with(six(), created("list-max-ziplist-entries 1", "list-max-ziplist-entries 1"), running("", all...),
				recorded(map[string]*string{"list-max-ziplist-entries": nil}, all...)), settledIs},
		{"unknown to Redis: it says so", with(six(), created("", "maxmemroy 1"), running("", all...)), setting("maxmemroy", all...)},
		{"of a node that was not asked", with(six(), larger), settledIs},
		{"of a revision that is not known", with(six(), larger, func(o *observed) { o.configs = nil }), rolls},
		{"though slots have no master", with(six(), larger, none, renewed(0, 3), running("maxmemory 0", 0, 3)),
			stuckBy(reasonDataLoss, "have lost what they held").losing("0-5460").making(setting("maxmemory", all...).upkeep...)},
	}.run(t)
}

// TestANewPodWaitsForTheFirstAnswers restarts the operator while a directive is wrong, and a Pod is gone. The redis.conf of its new Pod
// would have the value that Redis rejects, and its node would not start.
func TestANewPodWaitsForTheFirstAnswers(t *testing.T) {
	for _, acted := range []time.Time{{}, seenAt} {
		o := with(six(), created("", "maxmemory-policy wrong"), running("maxmemory-policy noeviction", 0, 1, 2, 3, 5), noPod(4))
		o.ActedAt = acted
		if p := decide(o); slices.Contains(inWords(p.Upkeep), "create Pod demo-4") == acted.IsZero() {
			t.Errorf("when the operator has last acted at %s, the commands are %q", acted, inWords(p.Upkeep))
		}
	}
}

func TestAConfigIsReadFromItsConfigMap(t *testing.T) {
	before := strings.Join(manifest.Preferences, "\n") + "\n" // as the lines were written before there was config.json
	for name, test := range map[string]struct {
		config map[string]v1.ConfigValue
		lines  string // "": no ConfigMap from before
	}{
		"none":           {nil, "\n"},
		"an empty value": {map[string]v1.ConfigValue{"save": ""}, `save ""`},
		"a blank value":  {map[string]v1.ConfigValue{"save": " "}, ""},
		"quotes":         {map[string]v1.ConfigValue{"proc-title-template": `"{title} {port}"`}, `proc-title-template "{title} {port}"`},
		"quotes alone":   {map[string]v1.ConfigValue{"save": `""`}, `save ""`},
		"a preference":   {map[string]v1.ConfigValue{"appendfsync": "always"}, "appendfsync always"},
		"several words":  {map[string]v1.ConfigValue{"tls-protocols": "TLSv1.2 TLSv1.3"}, "tls-protocols TLSv1.2 TLSv1.3"},
	} {
		o := six()
		o.Object.Spec.Config = test.config
		datas := []map[string]string{manifest.Configuration(o.Object).Data}
		if test.lines != "" {
			datas = append(datas, map[string]string{"redis.conf": before + strings.TrimPrefix(test.lines+"\nport 6379\n", "\n\n")})
		}
		for _, data := range datas {
			if got, ok := manifest.ConfigIn(data); !ok || !isRevision(o.Object, got, manifest.Revision(o.Object)) {
				t.Errorf("%s: the config %v is read as %v, %t, from %q", name, test.config, got, ok, data["redis.conf"])
			}
		}
	}
	for name, data := range map[string]map[string]string{
		"nothing": {}, "no JSON": {"config.json": "{"}, "null": {"config.json": "null"},
		"another order": {"redis.conf": "save \"\"\nappendfsync everysec\nport 6379\n"}, "no port": {"redis.conf": before},
	} {
		if got, ok := manifest.ConfigIn(data); ok {
			t.Errorf("%s is read as %v", name, got)
		}
	}
}

// configured is an edit of spec.config.
func configured(text string) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Generation++
		rdc.Spec.Config = configOf(text)
	}
}

// TestDirectivesAreRecordedBeforeTheyAreSet has a node that takes everything, and looks at the order.
func TestDirectivesAreRecordedBeforeTheyAreSet(t *testing.T) {
	s := newStage(t, six()).settle()
	s.settable = map[string]string{"maxmemory": "0", "hz": "10"}
	s.edit(configured("maxmemory 97mb, hz 10"))
	for range 5 {
		s.catchUp()
		if slices.Contains(s.synced(), "patch pods demo-0") {
			break
		}
	}
	if got := s.pod("demo-0").Annotations[AnnotationDirectives]; got != `{"hz":null,"maxmemory":"0"}` {
		t.Errorf("the Pod has %s", got)
	}
	var ofFirst []string
	for _, command := range s.commands {
		if words, ok := strings.CutPrefix(command, ipOf(0)+" "); ok {
			ofFirst = append(ofFirst, words)
		}
	}
	want := []string{"config set hz 10", "config set maxmemory 0", "config set hz 10", "config set maxmemory 97mb"}
	if !slices.Equal(ofFirst, want) {
		t.Errorf("the node got %q, want %q", ofFirst, want)
	}
	if got := s.recorded["demo-0"]; !maps.Equal(got, s.settable) {
		t.Errorf("when the Pod was patched, the node had %v, want %v", got, s.settable)
	}
	s.catchUp()
	for range 2 {
		if some, after, err := s.sync(); err != nil || len(s.commands) > 0 || len(slices.DeleteFunc(some, isStatus)) > 0 {
			t.Errorf("a settled cluster has writes %q and commands %q, waits %s, error %v", some, s.commands, after, err)
		}
		s.catchUp()
	}
}

// TestAValueSetByHandStays has a person set a directive in the nodes, and then write the same value to the spec. The operator must not set
// the value of before in between: with less memory, a node evicts keys at once.
func TestAValueSetByHandStays(t *testing.T) {
	s := newStage(t, six()).settle()
	s.settable = map[string]string{"maxmemory": "0"}
	sets := func(value string) []string {
		s.edit(configured("maxmemory " + value))
		return s.steps(5)
	}
	if got := sets("1gb"); !slices.Contains(got, ipOf(0)+" config set maxmemory 1gb") {
		t.Fatalf("the nodes got %q", got)
	}
	for _, directives := range s.values {
		directives["maxmemory"] = "4gb"
	}
	if got := sets("4gb"); slices.Contains(got, ipOf(0)+" config set maxmemory 1gb") {
		t.Errorf("the nodes got %q", got)
	}

	// A node has the new value, but the connection breaks before the operator has read it back.
	s.errs[ipOf(0)+" config set 8gb"] = errors.New("connection reset")
	s.edit(configured("maxmemory 8gb"))
	for _, _, err := s.sync(); err == nil; _, _, err = s.sync() {
		s.catchUp()
	}
	delete(s.errs, ipOf(0)+" config set 8gb")
	if got := s.steps(5); slices.Contains(got, ipOf(0)+" config set maxmemory 4gb") {
		t.Errorf("after the connection broke, the nodes got %q", got)
	}
}

func isStatus(write string) bool { return strings.HasPrefix(write, "update redisclusters") }

func TestWithoutRejectedKeepsTheValueOfTheNodes(t *testing.T) {
	rules := directiveRules{rejections: map[string]rejection{
		"maxmemory": {value: "lots", kept: ptr.To("100663296")}, "maxmemroy": {value: "1"}, "hz": {value: "many", kept: ptr.To("10")},
	}}
	o := six()
	o.Object.Spec.Config = configOf("maxmemory lots, maxmemroy 1, hz 20, timeout 0")
	got := rules.withoutRejected(o.Object)
	if want := configOf(`maxmemory "100663296", hz 20, timeout 0`); !maps.Equal(got.Spec.Config, want) {
		t.Errorf("the config is %v, want %v", got.Spec.Config, want)
	}
	quoted := with(six(), spec(func(s *v1.RedisClusterSpec) { s.Config = configOf(`cluster-node-timeout "15000"`) }))
	if got := quoted.patience(); got != time.Minute {
		t.Errorf("with a timeout in quotes, the patience is %s", got)
	}
	if len(rules.rejections) != 2 {
		t.Errorf("a corrected directive is still rejected: %v", rules.rejections)
	}
	if o.Object.Spec.Config["maxmemory"] != "lots" {
		t.Error("the RedisCluster has changed")
	}
}
