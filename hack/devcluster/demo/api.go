package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// patience bounds each wait for the API server.
const patience = 30 * time.Second

// api is the API server, as an administrator uses it.
type api struct {
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

func newAPI(config *rest.Config) (*api, error) {
	config.QPS = -1
	kube, err1 := kubernetes.NewForConfig(config)
	dyn, err2 := dynamic.NewForConfig(config)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("set up clients: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery()))
	return &api{config: config, kube: kube, dynamic: dyn, mapper: mapper}, nil
}

// applyFiles applies every object in the files that match the pattern, as kubectl apply --server-side does, and returns what the API server
// made of them.
func (a *api) applyFiles(ctx context.Context, pattern string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no %s: run it in the root of the repository, or say --artifacts", pattern)
	}
	var applied []*unstructured.Unstructured
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			result, err := a.apply(ctx, object)
			if err != nil {
				return nil, fmt.Errorf("apply %s of %s: %w", object.GetName(), file, err)
			}
			applied = append(applied, result)
		}
	}
	return applied, nil
}

func readObjects(file string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	defer f.Close()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("parse %s: %w", file, err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

func (a *api) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := a.resource(object)
	if err != nil {
		return nil, err
	}
	return resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "glassback-demo", Force: true})
}

func (a *api) get(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := a.resource(object)
	if err != nil {
		return nil, err
	}
	return resource.Get(ctx, object.GetName(), metav1.GetOptions{})
}

// resource returns where objects of this one's kind and namespace are.
func (a *api) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", kind.Kind, err)
	}
	resource := a.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return resource, nil
	}
	if namespace := object.GetNamespace(); namespace != "" {
		return resource.Namespace(namespace), nil
	}
	return resource.Namespace(metav1.NamespaceDefault), nil
}

// waitServed returns when the API server serves the CustomResourceDefinition, and says so to those who ask what there is.
func (a *api) waitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	kind := schema.GroupKind{Group: group, Kind: name}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		now, err := a.get(ctx, crd)
		if err != nil || conditionOf(now, "Established").Status != metav1.ConditionTrue {
			return false, err
		}
		a.mapper.Reset()
		_, err = a.mapper.RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s is served: %w", crd.GetName(), err)
	}
	return nil
}

// writeKubeconfig writes a kubeconfig for a ServiceAccount.
func (a *api) writeKubeconfig(ctx context.Context, namespace, name string, life time.Duration, file string) error {
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := a.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["devcluster"] = &clientcmdapi.Cluster{
		Server:                   a.config.Host,
		CertificateAuthority:     a.config.CAFile,
		CertificateAuthorityData: a.config.CAData,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the operator's kubeconfig: %w", err)
	}
	return nil
}
