// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// sampleApplication is the Application whose page the Pod visitor reads through its Service.
	sampleApplication = "application-sample"
	sampleAddress     = sampleApplication + ":8080"
	visitor           = "visitor"
)

// visit prints the title of the page every second.
const visit = `while true; do wget -q -O- http://` + sampleAddress + ` | sed -n 's:.*<title>\(.*\)</title>.*:\1:p'; sleep 1; done`

func (a *api) createVisitor(ctx context.Context) error {
	_, err := a.kubectl(ctx, "run", visitor, "--image=busybox",
		`--overrides={"apiVersion": "v1", "spec": {"terminationGracePeriodSeconds": 0}}`, "--command", "--", "sh", "-c", visit)
	return err
}

// lookForPage sets e.page to the last title that the visitor printed.
func lookForPage(ctx context.Context, a *api, e *example) error {
	if e.object.GetName() != sampleApplication {
		return nil
	}
	lines, err := a.logOf(ctx, visitor, 1)
	if err != nil || lines == "" {
		return err
	}
	e.page = lines + ", read by Pod " + visitor
	return nil
}

// lacksPage returns a message while the title of the page is missing, and then "".
func lacksPage(e *example) string {
	if e.object.GetName() == sampleApplication && e.page == "" {
		return "nothing answers at http://" + sampleAddress + " yet"
	}
	return ""
}

// lookForOutput sets e.printed to the output of the last completed Job of a MyCronJob.
func lookForOutput(ctx context.Context, a *api, e *example) error {
	last := ""
	for _, j := range e.jobs {
		if !j.ended.IsZero() && !j.failed {
			last = j.name
		}
	}
	if last == "" || last == e.read {
		return nil
	}
	pods, err := a.kube.CoreV1().Pods(e.object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + last})
	if err != nil {
		return fmt.Errorf("list the Pods of Job %s: %w", last, err)
	}
	for i := range pods.Items {
		printed, err := a.logOf(ctx, pods.Items[i].Name, shownLines)
		if err != nil {
			return err
		}
		if printed != "" {
			e.printed, e.read = printed, last
		}
	}
	return nil
}

// shownLines is the number of lines of a Job's output that the demo shows.
const shownLines = 2

func lacksOutput(e *example) string {
	if e.object.GetName() == sampleCronJob && e.printed == "" {
		return "no Job has printed anything yet"
	}
	return ""
}

// noLog begins the text that a kubelet returns for a container that no longer exists. The response is no error.
const noLog = "unable to retrieve container logs"

// logOf returns the last lines of the log of a Pod in the namespace of the examples, joined to one. It returns "" without a log or a Pod.
func (a *api) logOf(ctx context.Context, pod string, lines int64) (string, error) {
	log, err := a.kube.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(pod, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) { // The Pod is gone, or its container has not started.
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the log of Pod %s: %w", pod, err)
	}
	if strings.HasPrefix(string(log), noLog) {
		return "", nil
	}
	return strings.ReplaceAll(strings.TrimSpace(string(log)), "\n", " / "), nil
}
