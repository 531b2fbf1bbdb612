// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/leaktest"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

// testRecording records objects of all kinds with credentials in every place, and kills the operator. The recording has decisions of each
// kind and no credential. When the same program replays it, the decisions are the same.
func testRecording(t *testing.T, c *cloud) {
	secrets := leaktest.Secrets{
		"the operator's access key ID": cloudKeyID, "the operator's access secret": cloudKeySecret,
		"user data": "#!/bin/sh\necho e2e-hunter2-in-recorded-user-data\n", "a password of Redis": "e2e-recorded-horse-battery",
		"a variable": "e2e-recorded-value-of-a-variable", "an argument": "--password=e2e-recorded-argument",
		"a header": "Bearer e2e-recorded-token-of-a-probe", "an annotation": "e2e-recorded-annotation-of-others",
		"a tag":       "e2e-recorded-value-of-a-tag",
		"a directive": "e2e-recorded-directive-of-redis",
	}
	dir := filepath.Join(t.TempDir(), "recording")
	operator := c.operate(t, "--controllers=*", "--record", dir)
	for name, data := range map[string]map[string]string{
		"script": {"userData": secrets["user data"]}, "protected": {"password": secrets["a password of Redis"]},
	} {
		_, err := c.kube.CoreV1().Secrets(c.ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data},
			metav1.CreateOptions{})
		c.must(t, err)
	}
	annotations := map[string]string{"example.com/note": secrets["an annotation"]}
	app := artifact[appv1.Application](t, "examples/application.yaml")
	app.Annotations, app.Spec.Args = annotations, []string{secrets["an argument"]}
	app.Spec.Env = []appv1.EnvVar{{Name: "PASSWORD", Value: secrets["a variable"]}}
	app.Spec.Probes = &appv1.Probes{Liveness: &appv1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: secrets["a header"]}},
	}}}}
	app.Spec.Probes.Liveness.HTTPGet.Port.StrVal, app.Spec.Probes.Liveness.HTTPGet.Port.Type = appv1.PortName, 1
	_, err := c.glassback.AppV1().Applications(c.ns).Create(t.Context(), app, metav1.CreateOptions{})
	c.must(t, err)
	cron := artifact[mcjv1.MyCronJob](t, "examples/mycronjob.yaml")
	cron.Annotations = annotations
	container := &cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	container.Args, container.Env = []string{secrets["an argument"]}, []corev1.EnvVar{{Name: "PASSWORD", Value: secrets["a variable"]}}
	_, err = c.glassback.BatchV1().MyCronJobs(c.ns).Create(t.Context(), cron, metav1.CreateOptions{})
	c.must(t, err)
	rdc := artifact[redisv1.RedisCluster](t, "examples/rediscluster.yaml")
	rdc.Spec.AuthSecretRef = &redisv1.SecretKeyReference{Name: "protected", Key: "password"}
	rdc.Spec.Config = map[string]redisv1.ConfigValue{"proc-title-template": redisv1.ConfigValue(secrets["a directive"])}
	_, err = c.glassback.RedisV1().RedisClusters(c.ns).Create(t.Context(), rdc, metav1.CreateOptions{})
	c.must(t, err)
	if out, err := c.kubectl(t, "apply", "--namespace", c.ns, "-f", examples+"apiexamplea.yaml"); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, out)
	}
	c.make(t, "vm", func(s *v1alpha1.ECSInstanceSpec) {
		s.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script", Key: "userData"}
		s.Tags = map[string]v1alpha1.TagValue{"note": secrets["a tag"]}
	})
	c.becomes(t, time.Minute, "vm", glassback.ConditionReady, "Running")
	eventually(t, time.Minute, func(context.Context) error { return hasDecisions(dir) })
	operator.kill()

	text := recordedText(t, dir)
	for _, line := range []string{`"stage":{`, `"overview":{`} { // the page needs these
		if !strings.Contains(text, line) {
			t.Errorf("the recording has no line with %s", line)
		}
	}
	for _, leak := range secrets.In(text) {
		t.Errorf("the recording contains %s", leak)
	}
	out, err := exec.Command(binary(t), "replay", dir).CombinedOutput()
	if err != nil {
		t.Errorf("glassback replay: %v\n%s", err, out)
	}
	t.Logf("%d bytes of JSON\n%s", len(text), out)
}

// hasDecisions returns an error unless the recording has several decisions of each kind.
func hasDecisions(dir string) error {
	decisions := map[string]int{}
	files, err := recording.Files([]string{dir})
	for _, file := range files {
		err = errors.Join(err, recording.Read(file, func(_ *recording.Header, _ int, r *recording.Record) error {
			if len(r.Plan) > 0 {
				decisions[r.Kind]++
			}
			return nil
		}))
	}
	for _, kind := range []string{"ApiExampleA", "Application", "MyCronJob", "RedisCluster", "ECSInstance"} {
		if decisions[kind] < 2 {
			err = errors.Join(err, fmt.Errorf("the recording has %d decisions of the kind %s", decisions[kind], kind))
		}
	}
	return err
}

// recordedText returns all lines of a recording.
func recordedText(t *testing.T, dir string) string {
	t.Helper()
	files, err := recording.Files([]string{dir})
	must.Succeed(t, err)
	var all []byte
	for _, name := range files {
		all = append(all, recordtest.Text(t, name)...)
	}
	return string(all)
}
