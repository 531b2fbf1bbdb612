// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/artifacts/crd"
	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// server takes the custom resources of one definition in as the API server does.
// Its steps are those of customresource_handler.go and of
// registry/customresource/strategy.go in apiextensions-apiserver; that package
// itself would bring an etcd client into go.mod.
type server struct {
	schema    *schema.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
	scale     *apiextensionsv1.CustomResourceSubresourceScale // or nil
}

// serve returns the server of a definition. It fails if the API server would not take the definition: not structural, a rule that does not
// compile, or one that may cost too much.
func serve(definition *apiextensionsv1.CustomResourceDefinition) (*server, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	definition = definition.DeepCopy()
	scheme.Default(definition)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(definition, internal, nil); err != nil {
		return nil, err
	}
	internal.Status.StoredVersions = []string{definition.Spec.Versions[0].Name}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := scheme.Convert(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return &server{structural, validator, rules, definition.Spec.Versions[0].Subresources.Scale}, err
}

// decode is how kubectl's manifest becomes an object.
func (s *server) decode(manifest []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSONStrict(manifest)
	if err != nil {
		return nil, err
	}
	var obj map[string]any
	if err := utiljson.Unmarshal(data, &obj); err != nil {
		return nil, err
	}
	return s.admit(obj)
}

// admit returns a copy of obj with defaults. It fails if there are unknown fields, as kubectl asks for.
func (s *server) admit(obj map[string]any) (map[string]any, error) {
	obj = runtime.DeepCopyJSON(obj)
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj, s.schema, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.schema)
	coerceErr, more := objectmeta.CoerceWithOptions(nil, obj, s.schema, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if coerceErr != nil {
		return nil, coerceErr
	}
	unknown = append(unknown, more...)
	if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
		return nil, err
	}
	defaulting.Default(obj, s.schema)
	if len(unknown) > 0 {
		errs := make([]error, 0, len(unknown))
		for _, path := range unknown {
			errs = append(errs, fmt.Errorf("unknown field %q", path))
		}
		return nil, runtime.NewStrictDecodingError(errs)
	}
	return obj, nil
}

// create returns what the API server has against a new object.
func (s *server) create(obj map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, s.validator)
	errs = append(errs, s.common(obj)...)
	if slices.ContainsFunc(errs, blocksRules) {
		return errs
	}
	ruleErrs, _ := s.rules.Validate(context.Background(), nil, s.schema, obj, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, ruleErrs...)
}

// update returns what the API server has against obj in the place of old.
func (s *server) update(obj, old map[string]any) field.ErrorList {
	changes := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: s.schema})
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, s.validator, validation.WithRatcheting(changes))
	errs = append(errs, s.common(obj)...)
	if slices.ContainsFunc(errs, blocksRules) {
		return errs
	}
	ruleErrs, _ := s.rules.Validate(context.Background(), nil, s.schema, obj, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(changes))
	return append(errs, ruleErrs...)
}

func (s *server) common(obj map[string]any) field.ErrorList {
	// false: the namespace comes with the request.
	errs := apivalidation.ValidateObjectMetaAccessor(&unstructured.Unstructured{Object: obj}, false, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, s.schema, false)...)
	errs = append(errs, s.scaled(obj)...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, s.schema, obj)...)
}

// scaled returns what the API server has against the number that the scale subresource is about.
func (s *server) scaled(obj map[string]any) field.ErrorList {
	if s.scale == nil {
		return nil
	}
	path := field.NewPath(s.scale.SpecReplicasPath)
	replicas, _, err := unstructured.NestedInt64(obj, strings.Split(strings.TrimPrefix(s.scale.SpecReplicasPath, "."), ".")...)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, replicas, err.Error())}
	case replicas < 0:
		return field.ErrorList{field.Invalid(path, replicas, "should be a non-negative integer")}
	case replicas > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, replicas, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32))}
	}
	return nil
}

// blocksRules tells the errors after which the API server does not run any rules; it adds a line that says so.
func blocksRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
		field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}, err.Type)
}

// servers returns the servers of all definitions in the binary, by kind.
func servers(t *testing.T) map[string]*server {
	t.Helper()
	byKind, err := serveAll()
	if err != nil {
		t.Fatalf("the API server would not take the definition of %v", err)
	}
	return byKind
}

var serveAll = sync.OnceValues(func() (map[string]*server, error) {
	crds, err := crd.All()
	if err != nil {
		return nil, err
	}
	byKind := map[string]*server{}
	for _, definition := range crds {
		kind := definition.Spec.Names.Kind
		if byKind[kind], err = serve(definition); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return byKind, nil
})

// verdict is what the Go code of pkg/apis makes of an object.
type verdict struct {
	decoded, defaulted any
	errs               field.ErrorList
	warnings           []string // of an object without errs
}

// verdicts give the Go code's verdict on an object in the place of old, nil for a new
// one, by kind. They fail on an object that does not fit into the Go type.
var verdicts = map[string]func(obj, old map[string]any) (verdict, error){
	"ApiExampleA":  verdictOf[groupav1.ApiExampleA],
	"ECSInstance":  verdictOf[ecsv1alpha1.ECSInstance],
	"Application":  verdictOf[appv1.Application],
	"MyCronJob":    verdictOf[batchv1.MyCronJob],
	"RedisCluster": verdictOf[redisv1.RedisCluster],
}

// object is a pointer to the Go type of a kind.
type object[T any] interface {
	*T
	DeepCopy() *T
	Default()
	Validate(old *T) field.ErrorList
	Warnings() []string
}

func verdictOf[T any, P object[T]](obj, old map[string]any) (verdict, error) {
	decoded, err := decode[T](obj)
	if err != nil {
		return verdict{}, err
	}
	var replaced *T
	if old != nil {
		if replaced, err = decode[T](old); err != nil {
			return verdict{}, err
		}
		P(replaced).Default()
	}
	defaulted := P(P(decoded).DeepCopy())
	defaulted.Default()
	was, replacedWas := P(defaulted.DeepCopy()), P(replaced).DeepCopy()
	v := verdict{decoded: P(decoded), defaulted: defaulted, errs: defaulted.Validate(replaced)}
	if len(v.errs) == 0 {
		v.warnings = defaulted.Warnings()
	}
	defaulted.Default() // Defaults get no more defaults.
	namesNoField := slices.ContainsFunc(v.errs, func(err *field.Error) bool { return err.Field == "" }) ||
		slices.ContainsFunc(v.warnings, func(text string) bool { return !strings.HasPrefix(text, "spec.") })
	if again := defaulted.Validate(replaced); namesNoField || !reflect.DeepEqual(v.errs, again) ||
		!equality.Semantic.DeepEqual(was, defaulted) || !equality.Semantic.DeepEqual(replacedWas, replaced) {
		panic(fmt.Sprintf("Default or Validate changes an object, names no field, or says something else the second time: %v, %v, %v",
			v.errs, again, v.warnings))
	}
	return v, nil
}

func decode[T any](obj map[string]any) (*T, error) {
	decoded := new(T)
	data, err := json.Marshal(obj)
	return decoded, errors.Join(err, json.Unmarshal(data, decoded))
}
