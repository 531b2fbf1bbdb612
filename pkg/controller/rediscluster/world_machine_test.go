// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// What a kubelet, kube-proxy, DNS and cert-manager do in a world.

// bind gives the claim of a Pod its volume, as happens after scheduling.
func (w *world) bind(p *corev1.Pod) {
	for _, c := range w.claims() {
		if c.Name != "data-"+p.Name || c.Spec.VolumeName != "" {
			continue
		}
		c.Spec.VolumeName = "volume-" + string(c.UID)
		update(w.t, w.kube, "persistentvolumeclaims", &c)
	}
}

// kubelet starts a redis-server for each Pod, and stops the servers of deleted Pods.
func (w *world) kubelet() {
	w.t.Helper()
	exists := map[types.UID]bool{}
	pods := w.pods()
	for _, p := range pods {
		exists[p.UID] = true
	}
	for uid, server := range w.servers {
		if !exists[uid] {
			server.Stop()
			delete(w.servers, uid)
		}
	}
	w.release()
	w.writeCertificates()
	defer w.proxyServices()
	for _, p := range pods {
		server := w.servers[p.UID]
		if w.stopped[p.Name] || (server != nil && server.Running()) {
			continue
		}
		ip := p.Status.PodIP
		if ip == "" {
			ip = w.ip()
		}
		password, directives := w.password, append(w.directives(p), w.startHostname(p)...)
		if manifest.HasAccount(p) {
			password, directives = "", append(directives, w.makeUsers(p)...)
		}
		w.servers[p.UID] = redistest.Start(w.t, redistest.Config{
			IP: ip, Dir: w.volume(p), Password: password, FileLimit: w.limits[p.Name], Directives: append(directives, w.makeTLS(p)...),
			TLSPort: manifest.PortFor(p, true),
		})
		w.bind(p)
		running := p.DeepCopy()
		running.Spec.NodeName = "machine"
		running.Status.Phase, running.Status.PodIP = corev1.PodRunning, ip
		running.Status.HostIP = w.machine
		running.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		update(w.t, w.kube, "pods", running)
	}
}

// release removes deleted claims whose Pods no longer exist.
func (w *world) release() {
	resource := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	for _, c := range w.claims() {
		if c.DeletionTimestamp != nil && w.pod(strings.TrimPrefix(c.Name, "data-")) == nil {
			must.Succeed(w.t, w.kube.Tracker().Delete(resource, "default", c.Name))
		}
	}
}

func (w *world) claims() []corev1.PersistentVolumeClaim {
	return listed(w.t, w.kube, "persistentvolumeclaims", "PersistentVolumeClaim").(*corev1.PersistentVolumeClaimList).Items
}

func (w *world) ip() string {
	if len(w.nextIP) > 0 {
		ip := w.nextIP[0]
		w.nextIP = w.nextIP[1:]
		return ip
	}
	return redistest.FreeIP(w.t)
}

// dir returns a directory that outlives servers, by its name.
func (w *world) dir(name string) string {
	if w.dirs[name] == "" {
		w.dirs[name] = w.t.TempDir()
	}
	return w.dirs[name]
}

// volume returns the directory of the Pod's claim or, without a claim, of the Pod.
func (w *world) volume(p *corev1.Pod) string {
	uid := string(p.UID)
	for _, c := range w.claims() {
		if c.Name == "data-"+p.Name {
			uid = string(c.UID)
		}
	}
	return w.dir(uid)
}

// configuration returns the data of the Pod's ConfigMap.
func (w *world) configuration(p *corev1.Pod) map[string]string {
	cm, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", p.Spec.Volumes[1].ConfigMap.Name)
	must.Succeed(w.t, err)
	return cm.(*corev1.ConfigMap).Data
}

// directives returns the directives of the Pod's redis.conf, without ports, directories and files: redistest chooses these.
func (w *world) directives(p *corev1.Pod) []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(w.configuration(p)["redis.conf"]), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "port ") || strings.HasPrefix(line, "dir ") || strings.HasPrefix(line, "aclfile ") ||
			strings.Contains(line, manifest.DirTLS) || strings.Contains(line, manifest.FileTLS)
	})
}

// startHostname returns the directive that start.sh adds for a Pod with a hostname.
func (w *world) startHostname(p *corev1.Pod) []string {
	for _, env := range p.Spec.Containers[0].Env {
		if env.Name == manifest.EnvHostname && strings.Contains(w.configuration(p)["start.sh"], directiveHostname) {
			return []string{directiveHostname + " " + env.Value}
		}
	}
	return nil
}

// usersFile returns the file with the users of a Pod's node.
func (w *world) usersFile(p *corev1.Pod) string {
	return filepath.Join(w.dir("users "+string(p.UID)), "users.acl")
}

// makeUsers does what users.sh does, and returns the directives of it.
func (w *world) makeUsers(p *corev1.Pod) []string {
	file, password, lines := w.usersFile(p), w.passwordOf(manifest.PasswordRefOf(p)), []string{"user default off"}
	if text, err := os.ReadFile(file); err == nil {
		lines = slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "user glassback ")
		})
	}
	lines = append(lines, "user glassback on #"+redisnode.HashPassword(password)+" ~* &* +@all")
	must.Succeed(w.t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return []string{"aclfile " + file, "masterauth " + password}
}

// writeCertificates does what a kubelet does with changed Secrets.
func (w *world) writeCertificates() {
	secret := w.secret("redis-tls")
	if w.slow || secret == nil {
		return
	}
	for _, p := range w.pods() {
		if !manifest.HasTLS(p) {
			continue
		}
		for key, text := range secret.Data {
			must.Succeed(w.t, os.WriteFile(filepath.Join(w.dir("tls "+string(p.UID)), key), text, 0o600))
		}
	}
}

// makeTLS runs tls.sh, and returns the directives of it.
func (w *world) makeTLS(p *corev1.Pod) []string {
	if !manifest.HasTLS(p) {
		return nil
	}
	dir := w.dir("tls " + string(p.UID))
	conf := filepath.Join(dir, "tls.conf")
	for name, text := range map[string]string{"tls.sh": manifest.TLSScript, "next.sh": "exit 0\n"} {
		must.Succeed(w.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := exec.Command("sh", filepath.Join(dir, "tls.sh"), "next.sh")
	run.Env = append(os.Environ(), "GLASSBACK_TLS="+p.Annotations[manifest.AnnotationTLS], "GLASSBACK_TLS_DIR="+dir,
		"GLASSBACK_TLS_CONF="+conf,
		"GLASSBACK_CONFIG="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		w.t.Fatalf("tls.sh: %v: %s", err, out)
	}
	text, err := os.ReadFile(conf)
	must.Succeed(w.t, err)
	return append([]string{
		"tls-cert-file " + dir + "/tls.crt", "tls-key-file " + dir + "/tls.key", "tls-ca-cert-file " + dir + "/ca.crt",
	}, strings.Split(strings.TrimSpace(string(text)), "\n")...)
}

// services returns the Services for clients outside of the cluster.
func (w *world) services() []corev1.Service {
	list := listed(w.t, w.kube, "services", "Service").(*corev1.ServiceList)
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return s.Labels[manifest.LabelExternal] == "" })
}

// proxyServices allocates ports for Services, and forwards connections to their Pods. A load balancer gets its IP from the test.
func (w *world) proxyServices() {
	w.t.Helper()
	seen := map[string]bool{}
	for _, s := range w.services() {
		var pod *corev1.Pod
		for _, p := range w.pods() {
			selected := klabels.SelectorFromSet(s.Spec.Selector).Matches(klabels.Set(p.Labels))
			if server := w.servers[p.UID]; selected && server != nil && server.Running() {
				pod = p
			}
		}
		changed := false
		for i := range s.Spec.Ports {
			port := &s.Spec.Ports[i]
			key := fmt.Sprintf("%s %s %s", s.Name, s.Spec.Type, port.Name)
			seen[key] = true
			if w.proxies[key] == nil && s.Spec.Type == corev1.ServiceTypeNodePort {
				w.proxies[key] = redistest.NewProxy(w.t, net.JoinHostPort(w.machine, "0"))
			}
			if ip := manifest.IPOfBalancer(&s); w.proxies[key] == nil && ip != "" {
				w.proxies[key] = redistest.NewProxy(w.t, net.JoinHostPort(ip, strconv.Itoa(int(port.Port))))
			}
			forwarder := w.proxies[key]
			if forwarder == nil {
				continue
			}
			if s.Spec.Type == corev1.ServiceTypeNodePort && int(port.NodePort) != forwarder.Port() {
				port.NodePort, changed = int32(forwarder.Port()), true
			}
			target := ""
			if pod != nil && !w.blocked[s.Name+" "+port.Name] {
				target = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(manifest.PortNamed(pod, port.Name)))
			}
			forwarder.Set(target)
		}
		if changed {
			update(w.t, w.kube, "services", &s)
		}
	}
	for key, p := range w.proxies {
		if !seen[key] {
			p.Close()
			delete(w.proxies, key)
		}
	}
}

// domain is that of all hostnames in tests.
const domain = ".example.com"

// nowhere is an IP at which nothing listens.
const nowhere = "127.255.255.254"

// resolve does what DNS does with a hostname: it returns the IP of the load balancer. It returns an IP as it is.
func (w *world) resolve(host string) string {
	label, _, _ := strings.Cut(host, ".")
	if !strings.HasSuffix(host, domain) {
		return host
	}
	for _, s := range w.services() {
		if ip := manifest.IPOfBalancer(&s); s.Name == label && ip != "" {
			return ip
		}
	}
	return nowhere
}

// balance gives all load balancers an IP.
func (w *world) balance() {
	w.t.Helper()
	for _, s := range w.services() {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || manifest.IPOfBalancer(&s) != "" {
			continue
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: redistest.FreeIP(w.t)}}
		update(w.t, w.kube, "services", &s)
	}
}
