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
	"k8s.io/utils/ptr"
)

const (
	// seedApplication is the Application whose page is read, by the name of its Service, from another Pod, which is visitor.
	seedApplication = "application-sample"
	seedAddress     = seedApplication + ":8080"
	visitor         = "visitor"
)

// visit prints the title of the page again and again.
const visit = `while true; do wget -q -O- http://` + seedAddress + ` | sed -n 's:.*<title>\(.*\)</title>.*:\1:p'; sleep 1; done`

// sendVisitor creates the Pod from which the page is read.
func (a *api) sendVisitor(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: visitor},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers:                    []corev1.Container{{Name: visitor, Image: "busybox", Command: []string{"sh", "-c", visit}}},
		},
	}
	if _, err := a.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Pod %s: %w", visitor, err)
	}
	return nil
}

// lookForPage takes over what the visitor has read last of the seed's Application.
func lookForPage(ctx context.Context, a *api, e *example) error {
	if e.object.GetName() != seedApplication {
		return nil
	}
	lines, err := a.logOf(ctx, visitor, 1)
	if err != nil || lines == "" {
		return err
	}
	e.page = lines + ", read by Pod " + visitor
	return nil
}

func lacksPage(e *example) string {
	if e.object.GetName() == seedApplication && e.page == "" {
		return "nothing answers at http://" + seedAddress + " yet"
	}
	return ""
}

// lookForOutput takes over what the last completed Job of a MyCronJob has printed.
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

// shownLines is how much of what a Job has printed is shown.
const shownLines = 2

func lacksOutput(e *example) string {
	if e.object.GetName() == seed && e.printed == "" {
		return "no Job has printed anything yet"
	}
	return ""
}

// noLog is what a kubelet answers, and no error, for a container that is no longer there.
const noLog = "unable to retrieve container logs"

// logOf returns the last lines that a Pod in the namespace of the examples has printed, in one; nothing if it has not, or is gone.
func (a *api) logOf(ctx context.Context, pod string, lines int64) (string, error) {
	log, err := a.kube.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(pod, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) { // it is gone, or has not begun
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
