// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// valid returns a RedisCluster that is valid, after mutate has been at its spec.
func valid(mutate func(s *RedisClusterSpec)) *RedisCluster {
	r := &RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
	r.Spec.Addr = "192.168.1.10:6379"
	r.Default()
	mutate(&r.Spec)
	return r
}

// verdict is a case: an object, and how the one error about it begins; "" for
// none.
type verdict struct {
	object *RedisCluster
	want   string
}

func (v verdict) run(t *testing.T) {
	v.over(t, nil)
}

// over is run for an object in the place of an older one.
func (v verdict) over(t *testing.T, old *RedisCluster) {
	errs := v.object.Validate(old)
	switch {
	case v.want == "" && len(errs) > 0:
		t.Errorf("got %v, want none", errs.ToAggregate())
	case v.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), v.want)):
		t.Errorf("got %v, want %s", errs.ToAggregate(), v.want)
	}
}

func TestValidate(t *testing.T) {
	named := func(name string) *RedisCluster {
		r := valid(func(*RedisClusterSpec) {})
		r.Name = name
		return r
	}
	for name, test := range map[string]verdict{
		"only an addr is valid": {valid(func(*RedisClusterSpec) {}), ""},
		"every number at its upper bound is valid": {valid(func(s *RedisClusterSpec) {
			s.Size, s.ReplicasPerMaster = ptr.To[int32](500), ptr.To[int32](5)
		}), ""},
		"every number at its lower bound is valid": {valid(func(s *RedisClusterSpec) {
			s.Size, s.ReplicasPerMaster = ptr.To[int32](6), ptr.To[int32](0)
		}), ""},
		"access from outside is valid": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{Service: &ClientService{}, External: &ExternalAccess{
				Type: ExternalNodePort, Hosts: []Host{{"a", "192.0.2.7"}, {"b", "2001:db8::7"}},
			}}
		}), ""},
		"access from outside with TLS": {valid(func(s *RedisClusterSpec) {
			s.TLS = &TLS{SecretRef: SecretReference{"redis-tls"}, Mode: TLSPreferred, Port: DefaultTLSPort}
			s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort}}
		}), ""},
		"access by load balancers for some networks": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{
				Type: ExternalLoadBalancer, LoadBalancerSourceRanges: []string{"192.0.2.0/24", "2001:db8::/32"},
			}}
		}), ""},
		"access by node ports for some networks": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort, LoadBalancerSourceRanges: []string{"192.0.2.0/24"}}}
		}), "spec.access.external.loadBalancerSourceRanges: Forbidden: can only be set with the type LoadBalancer"},
		"access for an IP": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalLoadBalancer, LoadBalancerSourceRanges: []string{"192.0.2.0"}}}
		}), `spec.access.external.loadBalancerSourceRanges[0]: Invalid value: "192.0.2.0"`},
		"access for a network twice": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{
				Type: ExternalLoadBalancer, LoadBalancerSourceRanges: []string{"192.0.2.0/24", "192.0.2.0/24"},
			}}
		}), "spec.access.external.loadBalancerSourceRanges[1]: Duplicate"},
		"access for too many networks": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalLoadBalancer}}
			for i := range maxSourceRanges + 1 {
				s.Access.External.LoadBalancerSourceRanges = append(s.Access.External.LoadBalancerSourceRanges, "10.0.0."+strconv.Itoa(i)+"/32")
			}
		}), "spec.access.external.loadBalancerSourceRanges: Too many"},
		"hostnames of load balancers": {valid(hostname(ExternalLoadBalancer, "cache-{pod}.redis.example.com")), ""},
		"hostnames of machines": {valid(hostname(ExternalNodePort, "{pod}.example.com")),
			"spec.access.external.hostname: Forbidden: can only be set with the type LoadBalancer"},
		"the same hostname for all nodes": {valid(hostname(ExternalLoadBalancer, "redis.example.com")),
			`spec.access.external.hostname: Invalid value: "redis.example.com": must be a DNS name with one {pod}`},
		"a hostname with the Pod twice": {valid(hostname(ExternalLoadBalancer, "{pod}.{pod}.example.com")),
			`spec.access.external.hostname: Invalid value: "{pod}.{pod}.example.com": must be a DNS name with one {pod}`},
		"a hostname with another placeholder": {valid(hostname(ExternalLoadBalancer, "{pod}.{namespace}.example.com")),
			`spec.access.external.hostname: Invalid value: "{pod}.{namespace}.example.com"`},
		"a hostname that is too long": {valid(hostname(ExternalLoadBalancer, "{pod}."+strings.Repeat("a.", 100)+"com")),
			"spec.access.external.hostname: Too long"},
		"hostnames, and a directive about them": {valid(func(s *RedisClusterSpec) {
			hostname(ExternalLoadBalancer, "{pod}.example.com")(s)
			s.Config = map[string]ConfigValue{"cluster-preferred-endpoint-type": "ip"}
		}), "spec.config[cluster-preferred-endpoint-type]: Forbidden: cannot be set together with access.external.hostname"},
		"a directive about hostnames alone": {valid(func(s *RedisClusterSpec) {
			hostname(ExternalLoadBalancer, "")(s)
			s.Config = map[string]ConfigValue{"cluster-preferred-endpoint-type": "hostname"}
		}), ""},
		"access from outside without a type": {valid(func(s *RedisClusterSpec) { s.Access = &Access{External: &ExternalAccess{}} }),
			`spec.access.external.type: Unsupported value: ""`},
		"the same machine twice": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort, Hosts: []Host{{"a", "192.0.2.7"}, {"a", "192.0.2.8"}}}}
		}), `spec.access.external.hosts[1]: Duplicate value: "a"`},
		"a machine without an IP": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort, Hosts: []Host{{Name: "a"}}}}
		}), `spec.access.external.hosts[0].ip: Invalid value: ""`},
		"a machine of a load balancer": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalLoadBalancer, Hosts: []Host{{"a", "192.0.2.7"}}}}
		}), "spec.access.external.hosts: Forbidden"},
		"too many machines": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort}}
			for i := range 501 {
				s.Access.External.Hosts = append(s.Access.External.Hosts, Host{strconv.Itoa(i), "192.0.2.7"})
			}
		}), "spec.access.external.hosts: Too many"},
		"too many machines, none of which is valid": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort, Hosts: make([]Host, maxHosts+1)}}
		}), "spec.access.external.hosts: Too many"},
		"too many annotations": {valid(func(s *RedisClusterSpec) {
			s.Access = &Access{Service: &ClientService{Annotations: map[string]string{}}}
			for i := range 65 {
				s.Access.Service.Annotations[strconv.Itoa(i)] = ""
			}
		}), "spec.access.service.annotations: Too many"},
		"too many nodes": {
			valid(func(s *RedisClusterSpec) { s.Size = ptr.To[int32](501) }), "spec.size: Invalid value: 501: must be from 6 to 500",
		},
		"too few nodes, which Default raises": {valid(func(s *RedisClusterSpec) { s.Size = ptr.To[int32](3) }),
			"spec.size: Invalid value: 3: must be from 6 to 500"},
		"too few nodes for the replicas": {valid(func(s *RedisClusterSpec) { s.ReplicasPerMaster = ptr.To[int32](2) }),
			"spec.size: Invalid value: 6: must be from 9 to 500"},
		"fewer replicas than none": {valid(func(s *RedisClusterSpec) { s.ReplicasPerMaster = ptr.To[int32](-1) }),
			"spec.replicasPerMaster: Invalid value: -1: must be from 0 to 5"},
		"too many replicas": {valid(func(s *RedisClusterSpec) { s.Size, s.ReplicasPerMaster = ptr.To[int32](21), ptr.To[int32](6) }),
			"spec.replicasPerMaster: Invalid value: 6: must be from 0 to 5"},

		"a name of 52 characters is valid": {named(strings.Repeat("x", 52)), ""},
		"a name of 53 characters leaves too little for those of its Pods": {named(strings.Repeat("x", 53)),
			"metadata.name: Invalid value: \"" + strings.Repeat("x", 53) + "\": must be a DNS label of no more than 52 characters"},
		"a name with a dot is none of a Service": {
			named("sessions.a"), `metadata.name: Invalid value: "sessions.a": must be a DNS label`,
		},
		"a name that begins with a digit is none either": {named("1st"), `metadata.name: Invalid value: "1st": must be a DNS label`},

		"an image with a space": {valid(func(s *RedisClusterSpec) { s.Image = "my redis" }),
			`spec.image: Invalid value: "my redis": must be the name of an image`},
		"an image that is too long": {valid(func(s *RedisClusterSpec) { s.Image = strings.Repeat("x", 1025) }), "spec.image: Too long: "},

		"a Secret is valid": {valid(func(s *RedisClusterSpec) {
			s.AuthSecretRef = &SecretKeyReference{Name: "redis-password", Key: "a.B_c-1"}
		}), ""},
		"a Secret without a name": {valid(func(s *RedisClusterSpec) { s.AuthSecretRef = &SecretKeyReference{Key: "password"} }),
			`spec.authSecretRef.name: Invalid value: "": must be the name of a Secret`},
		"a key that no Secret has": {valid(func(s *RedisClusterSpec) { s.AuthSecretRef = &SecretKeyReference{Name: "a", Key: "my password"} }),
			`spec.authSecretRef.key: Invalid value: "my password": must be a key of a Secret`},
		"users": {valid(withUsers(User{Name: "app", Rules: "~app:* %R~other:* &app:* +@all -@dangerous +config|get (~x +get)",
			PasswordSecretRef: &SecretKeyReference{Name: "a"}}, User{Name: "reader", Rules: "nopass allkeys +@read"})), ""},
		"users without the user default": {valid(func(s *RedisClusterSpec) { s.Users = []User{{Name: "app", Rules: "off"}} }),
			"spec.users: Invalid value: 1: must have the user default"},
		"users beside authSecretRef": {valid(func(s *RedisClusterSpec) {
			withUsers()(s)
			s.AuthSecretRef = &SecretKeyReference{Name: "a", Key: "b"}
		}), "spec.authSecretRef: Forbidden: cannot be set together with users"},
		"the operator's user": {valid(withUsers(User{Name: "glassback", Rules: "off"})), `spec.users[1].name: Invalid value: "glassback"`},
		"a name with a space": {valid(withUsers(User{Name: "my app", Rules: "off"})), `spec.users[1].name: Invalid value: "my app"`},
		"a user twice":        {valid(withUsers(User{Name: "default", Rules: "off"})), `spec.users[1]: Duplicate value: "default"`},
		"a password in rules": {
			valid(withUsers(User{Name: "app", Rules: "off >secret"})),
			`spec.users[1].rules: Invalid value: "off >secret"`,
		},
		"a hash in rules":  {valid(withUsers(User{Name: "app", Rules: "off #00"})), `spec.users[1].rules: Invalid value: "off #00"`},
		"a reset in rules": {valid(withUsers(User{Name: "app", Rules: "off reset"})), `spec.users[1].rules: Invalid value: "off reset"`},
		"no rules": {
			valid(withUsers(User{Name: "app", PasswordSecretRef: &SecretKeyReference{Name: "a"}})),
			`spec.users[1].rules: Invalid value: ""`,
		},
		"two spaces in rules": {valid(withUsers(User{Name: "app", Rules: "off  ~*"})), `spec.users[1].rules: Invalid value: "off  ~*"`},
		"a selector that is not closed": {
			valid(withUsers(User{Name: "app", Rules: "off (~a +get"})),
			`spec.users[1].rules: Invalid value: "off (~a +get"`,
		},
		"a selector in a selector": {
			valid(withUsers(User{Name: "app", Rules: "off (~a (+get) +set)"})),
			`spec.users[1].rules: Invalid value: "off (~a (+get) +set)"`,
		},
		"two lines of rules": {
			valid(withUsers(User{Name: "app", Rules: "off ~a\n+@all"})),
			`spec.users[1].rules: Invalid value: "off ~a\n+@all"`,
		},
		"a user without a login": {
			valid(withUsers(User{Name: "app", Rules: "~* +@all"})),
			"spec.users[1].rules: Forbidden: must have nopass or off",
		},
		"a password and nopass": {valid(withUsers(User{Name: "app", Rules: "nopass", PasswordSecretRef: &SecretKeyReference{Name: "a"}})),
			"spec.users[1].rules: Forbidden: must have nopass or off"},
		"a negative time": {valid(withUsers(User{Name: "app", Rules: "off", KeepOldPasswordSeconds: ptr.To[int32](-1)})),
			"spec.users[1].keepOldPasswordSeconds: Invalid value: -1: must be from 0 to 2592000"},
	} {
		t.Run(name, test.run)
	}
}

// withUsers sets the user default, which is off, and more users.
func withUsers(users ...User) func(*RedisClusterSpec) {
	return func(s *RedisClusterSpec) {
		s.Users = append([]User{{Name: "default", Rules: "off"}}, users...)
		for i := range s.Users {
			s.Users[i].setDefaults()
		}
	}
}

func TestValidateAddr(t *testing.T) {
	for name, test := range map[string]struct {
		addr string
		ok   bool
	}{
		"IPv4 is valid":                         {"192.168.1.10:6379", true},
		"IPv6 is valid":                         {"[::1]:6379", true},
		"IPv6 in full is valid":                 {"[2001:0db8:0000:0000:0000:ff00:0042:8329]:65535", true},
		"the first port is valid":               {"1.2.3.4:1", true},
		"the last port is valid":                {"1.2.3.4:65535", true},
		"none":                                  {"", false},
		"no port":                               {"1.2.3.4", false},
		"an empty port":                         {"1.2.3.4:", false},
		"port 0":                                {"1.2.3.4:0", false},
		"a port beyond the last":                {"1.2.3.4:70000", false},
		"a port that no number holds":           {"1.2.3.4:99999999999999999999", false},
		"a port with a zero before it":          {"1.2.3.4:06379", false},
		"no IP":                                 {":6379", false},
		"a name":                                {"foo:bar", false},
		"a host's name":                         {"redis.example.com:6379", false},
		"a host's name, however long":           {strings.Repeat("redis.", 40) + "example.com:6379", false},
		"an IP with a zero before a number":     {"192.168.01.10:6379", false},
		"three numbers":                         {"1.2.3:6379", false},
		"IPv6 without brackets":                 {"::1:6379", false},
		"IPv4 in brackets":                      {"[1.2.3.4]:6379", false},
		"IPv4 in IPv6":                          {"[::ffff:1.2.3.4]:6379", false},
		"a zone, which is of one machine alone": {"[fe80::1%eth0]:6379", false},
		"a URL":                                 {"redis://1.2.3.4:6379", false},
		"a space before it":                     {" 1.2.3.4:6379", false},
	} {
		t.Run(name, func(t *testing.T) {
			want := fmt.Sprintf("spec.addr: Invalid value: %q: invalid ip port, ip:port", test.addr)
			if test.ok {
				want = ""
			}
			verdict{valid(func(s *RedisClusterSpec) { s.Addr = test.addr }), want}.run(t)
		})
	}
}

func TestValidateStorage(t *testing.T) {
	of := func(size string, class *string) *RedisCluster {
		return valid(func(s *RedisClusterSpec) {
			s.Storage = &Storage{Size: resource.MustParse(size), StorageClassName: class}
		})
	}
	none := valid(func(*RedisClusterSpec) {})
	for name, test := range map[string]verdict{
		"a size is valid":             {of("1Gi", nil), ""},
		"one byte is valid":           {of("1", nil), ""},
		"a size and a class is valid": {of("1Gi", ptr.To("fast.ssd-2")), ""},
		"a size of nothing":           {of("0", nil), `spec.storage.size: Invalid value: "0": must be more than 0`},
		"a size below nothing":        {of("-1Gi", nil), `spec.storage.size: Invalid value: "-1Gi": must be more than 0`},
		"a class without a name": {
			of("1Gi", ptr.To("")), `spec.storage.storageClassName: Invalid value: "": must be the name of a StorageClass`,
		},
		"a class in upper case": {
			of("1Gi", ptr.To("SSD")), `spec.storage.storageClassName: Invalid value: "SSD": must be the name of a StorageClass`,
		},
		"a class that is too long": {of("1Gi", ptr.To(strings.Repeat("x", 254))), "spec.storage.storageClassName: Too long: "},
	} {
		t.Run(name, test.run)
	}

	const added = "spec.storage: Forbidden: cannot be added to a cluster or taken from it"
	for name, test := range map[string]struct {
		old *RedisCluster
		verdict
	}{
		"without storage, it stays so":  {none, verdict{none, ""}},
		"it may stay as it is":          {of("1Gi", ptr.To("a")), verdict{of("1Gi", ptr.To("a")), ""}},
		"it may be said in another way": {of("1Gi", nil), verdict{of("1024Mi", nil), ""}},
		"it may grow":                   {of("1Gi", nil), verdict{of("2Gi", nil), ""}},
		"it cannot shrink": {
			of("1Gi", nil), verdict{of("1G", nil), `spec.storage.size: Invalid value: "1G": cannot be less than it was`},
		},
		"it cannot be added":      {none, verdict{of("1Gi", nil), added}},
		"it cannot be taken away": {of("1Gi", nil), verdict{none, added}},
		"its class cannot be changed": {
			of("1Gi", ptr.To("a")), verdict{of("1Gi", ptr.To("b")), "spec.storage.storageClassName: Forbidden: cannot be changed"},
		},
		"its class cannot be said afterwards": {
			of("1Gi", nil), verdict{of("1Gi", ptr.To("b")), "spec.storage.storageClassName: Forbidden: cannot be changed"},
		},
		"its class cannot be left out afterwards": {
			of("1Gi", ptr.To("a")), verdict{of("1Gi", nil), "spec.storage.storageClassName: Forbidden: cannot be changed"},
		},
	} {
		t.Run(name, func(t *testing.T) { test.over(t, test.old) })
	}
}

// Everything but the storage may change.
func TestValidateChange(t *testing.T) {
	old := valid(func(*RedisClusterSpec) {})
	for name, test := range map[string]verdict{
		"the address":      {valid(func(s *RedisClusterSpec) { s.Addr = "[::1]:7000" }), ""},
		"the size":         {valid(func(s *RedisClusterSpec) { s.Size = ptr.To[int32](500) }), ""},
		"the replicas":     {valid(func(s *RedisClusterSpec) { s.ReplicasPerMaster = ptr.To[int32](0) }), ""},
		"the image":        {valid(func(s *RedisClusterSpec) { s.Image = "redis:8" }), ""},
		"the resources":    {valid(func(s *RedisClusterSpec) { s.Resources = &corev1.ResourceRequirements{} }), ""},
		"the config":       {valid(func(s *RedisClusterSpec) { s.Config = map[string]ConfigValue{"maxmemory": "1gb"} }), ""},
		"the password":     {valid(func(s *RedisClusterSpec) { s.AuthSecretRef = &SecretKeyReference{Name: "a", Key: "b"} }), ""},
		"but not to wrong": {valid(func(s *RedisClusterSpec) { s.Addr = "" }), `spec.addr: Invalid value: "": invalid ip port, ip:port`},
	} {
		t.Run(name, func(t *testing.T) { test.over(t, old) })
	}
}

func TestValidateResources(t *testing.T) {
	list := func(name corev1.ResourceName, quantity string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(quantity)}
	}
	resources := func(r corev1.ResourceRequirements) *RedisCluster {
		return valid(func(s *RedisClusterSpec) { s.Resources = &r })
	}
	for name, test := range map[string]verdict{
		"none are valid":     {resources(corev1.ResourceRequirements{}), ""},
		"fractions of a CPU": {resources(corev1.ResourceRequirements{Requests: list("cpu", "0.5"), Limits: list("cpu", "500m")}), ""},
		"a limit without a request, and a request without a limit": {
			resources(corev1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("memory", "1")}), "",
		},
		"more devices than the limit is for the API server to refuse": {resources(corev1.ResourceRequirements{
			Requests: list("example.com/device", "2"), Limits: list("example.com/device", "1")}), ""},
		"a request above its limit": {resources(corev1.ResourceRequirements{Requests: list("memory", "1Gi"), Limits: list("memory", "512Mi")}),
			`spec.resources.requests[memory]: Invalid value: "1Gi": must not be more than its limit`},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateConfig(t *testing.T) {
	config := func(config map[string]ConfigValue) *RedisCluster {
		return valid(func(s *RedisClusterSpec) { s.Config = config })
	}
	many := map[string]ConfigValue{}
	for i := range 65 {
		many[fmt.Sprint("a", i)] = ""
	}
	for name, test := range map[string]verdict{
		"directives are valid, an empty one too": {config(map[string]ConfigValue{
			"maxmemory-policy": "allkeys-lru", "save": "",
			"client-output-buffer-limit": "replica 256mb 64mb 60", "cluster-node-timeout": "5000"}), ""},
		"a directive in upper case": {
			config(map[string]ConfigValue{"Port": "1"}), `spec.config: Invalid value: "Port": every key must be the name of a directive`,
		},
		"two directives in one key": {
			config(map[string]ConfigValue{"save \"\"\nport": "1"}), `spec.config: Invalid value: "save \"\"\nport": every key must be`,
		},
		"a directive without a name": {
			config(map[string]ConfigValue{"": "1"}), `spec.config: Invalid value: "": every key must be the name of a directive`,
		},
		"a directive of 64 characters is valid": {config(map[string]ConfigValue{strings.Repeat("x", 64): ""}), ""},
		"a directive of 65 characters": {
			config(map[string]ConfigValue{strings.Repeat("x", 65): ""}), `spec.config: Invalid value: "xxx`,
		},
		"a directive of another field": {config(map[string]ConfigValue{"requirepass": "secret"}),
			"spec.config[requirepass]: Forbidden: the operator sets it, or another field of spec does"},
		"a directive of the operator": {
			config(map[string]ConfigValue{"appendonly": "no"}), "spec.config[appendonly]: Forbidden: the operator sets it",
		},
		"what a node says of itself": {
			config(map[string]ConfigValue{"cluster-announce-hostname": "a"}), "spec.config[cluster-announce-hostname]: Forbidden: ",
		},
		"a second line, with a directive of its own": {config(map[string]ConfigValue{"maxmemory": "1gb\nport 1"}),
			`spec.config[maxmemory]: Invalid value: "1gb\nport 1": must be one line`},
		"a value of 1024 characters is valid": {config(map[string]ConfigValue{"a": ConfigValue(strings.Repeat("ü", 1024))}), ""},
		"a value of 1025 characters": {
			config(map[string]ConfigValue{"a": ConfigValue(strings.Repeat("x", 1025))}), "spec.config[a]: Too long: ",
		},
		"too many directives": {config(many), "spec.config: Too many: 65: must have at most 64 items"},
	} {
		t.Run(name, test.run)
	}
	if !slices.IsSorted(ownDirectives) {
		t.Error("the operator's own directives are not in order")
	}
}

// exponent matches quantities that are written with one.
var exponent = regexp.MustCompile(`[0-9.][eE][-+.0-9]`)

// FuzzValidate reads objects as clients send them.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"sample"},"spec":{"addr":"192.168.1.10:6379","size":3}}`,
		`{"metadata":{"name":"Sample.a"},"spec":{"addr":"foo:bar","size":-1,"replicasPerMaster":6,"image":"my redis"}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"[::1]:1","size":500,"replicasPerMaster":5,"authSecretRef":{"name":"a"}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:65535","replicasPerMaster":0,"storage":{"size":"1Gi","storageClassName":"a"}}}`,
		`{"spec":{"storage":{}}}`,
		`{"spec":{"addr":"1.2.3.4:1","storage":{"size":"99999999999999999999"}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:0","storage":{"size":"-1","storageClassName":""},"authSecretRef":{}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:1","config":{"maxmemory":"1gb","save":""},"resources":{"limits":{"memory":"1Gi"}}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:1","config":{"Port":"1","port":"1","a":"\n","":""},` +
			`"resources":{"limits":{"cpu":1},"requests":{"cpu":2}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if exponent.Match(data) {
			return // It may take forever to decode: the schema refuses it.
		}
		r := &RedisCluster{}
		if json.Unmarshal(data, r) != nil {
			return
		}
		old := valid(func(s *RedisClusterSpec) { s.Storage = &Storage{Size: resource.MustParse("1Gi")} })
		r.Default()
		again := r.DeepCopy()
		again.Default()
		errs := again.Validate(nil)
		oldAsWas := old.DeepCopy()
		changeErrs := again.Validate(old)
		if !reflect.DeepEqual(r, again) {
			t.Errorf("Default or Validate changed an object with defaults: %+v became %+v", r, again)
		}
		if !reflect.DeepEqual(old, oldAsWas) {
			t.Errorf("Validate changed the older object: %+v became %+v", oldAsWas, old)
		}
		if second := again.Validate(nil); !reflect.DeepEqual(errs, second) {
			t.Errorf("Validate says %v, and then %v", errs.ToAggregate(), second.ToAggregate())
		}
		for _, err := range slices.Concat(errs, changeErrs) {
			if err.Field == "" {
				t.Errorf("names no field: %v", err)
			}
		}
		if len(changeErrs) < len(errs) {
			t.Errorf("valid in the place of another: %v", errs.ToAggregate())
		}
		if len(errs) > 0 {
			return
		}
		// What is valid can be worked with.
		for _, warning := range r.Warnings() {
			if !strings.HasPrefix(warning, "spec.") {
				t.Errorf("names no field: %s", warning)
			}
		}
		replicas := *r.Spec.ReplicasPerMaster
		if size, masters := *r.Spec.Size, r.Spec.Masters(); size < 6 || size > 500 || masters < 3 || size < masters*(1+replicas) {
			t.Errorf("valid with %d masters of %d nodes, and %d replicas each", masters, size, replicas)
		}
		for key, value := range r.Spec.Config {
			if strings.ContainsAny(key+string(value), "\n\r\x00") || key == "port" || key == "requirepass" {
				t.Errorf("valid with %q in redis.conf", key+" "+string(value))
			}
		}
		if s := r.Spec.Storage; s != nil && s.Size.Sign() <= 0 {
			t.Errorf("valid with storage of %v", &s.Size)
		}
	})
}

func hostname(of ExternalType, template string) func(*RedisClusterSpec) {
	return func(s *RedisClusterSpec) {
		s.Access = &Access{External: &ExternalAccess{Type: of, Hostname: template}}
	}
}

func TestHostnameOf(t *testing.T) {
	s := &RedisClusterSpec{}
	if got := s.HostnameOf("demo-0"); got != "" {
		t.Errorf("without access, the hostname is %q", got)
	}
	hostname(ExternalLoadBalancer, "{pod}.example.com")(s)
	s.Access.External.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "{pod}.example.com", "a": "b"}
	want := map[string]string{"external-dns.alpha.kubernetes.io/hostname": "demo-0.example.com", "a": "b"}
	if got := s.Access.External.AnnotationsOf("demo-0"); s.HostnameOf("demo-0") != "demo-0.example.com" || !maps.Equal(got, want) {
		t.Errorf("the hostname is %q, and the annotations are %v", s.HostnameOf("demo-0"), got)
	}
	s.Access.External.Hostname = ""
	if got := s.Access.External.AnnotationsOf("demo-0"); !maps.Equal(got, s.Access.External.Annotations) || s.HostnameOf("demo-0") != "" {
		t.Errorf("without a hostname, the annotations are %v", got)
	}
}
