// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// admissionReview is the part of an AdmissionReview that the webhooks read. All else of it takes no memory.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`

	Request *request `json:"request"`
}

// request is the part of an AdmissionRequest that the webhooks read.
type request struct {
	UID         types.UID                   `json:"uid"`
	Operation   admissionv1.Operation       `json:"operation"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Namespace   string                      `json:"namespace"`
	Name        string                      `json:"name"`
	DryRun      bool                        `json:"dryRun"`
	Object      *content                    `json:"object"`
	OldObject   *content                    `json:"oldObject"`
}

// content is the part of an object that the webhooks read.
type content struct {
	Metadata struct {
		Name        string `json:"name"`
		Annotations struct {
			DeletionProtection string `json:"glassback.dev/deletion-protection"`
		} `json:"annotations"`
	} `json:"metadata"`

	Spec   stdjson.RawMessage `json:"spec"`
	Status stdjson.RawMessage `json:"status"` // The webhooks read that of the old object alone.
}

// maxText bounds the fields of a request that answers and logs repeat, and a text that an error quotes, in bytes. API servers allow at most
// 317 bytes for a name.
const maxText = 1 << 10

// decodeReview returns the request of an AdmissionReview.
func decodeReview(body []byte) (*request, *refused) {
	if !utf8.Valid(body) { // A decoder replaces each invalid byte by three bytes.
		return nil, badRequest(errors.New("the body is no AdmissionReview: it is not UTF-8"))
	}
	review := &admissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, badRequest(fmt.Errorf("the body is no AdmissionReview: %w", err))
	}
	if got := review.GroupVersionKind(); got != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		return nil, badRequest(fmt.Errorf("the body must be an AdmissionReview of %s, not %q of %q",
			admissionv1.SchemeGroupVersion, cut(got.Kind), cut(got.GroupVersion().String())))
	}
	r := review.Request
	if r == nil || r.UID == "" {
		return nil, badRequest(errors.New("the AdmissionReview has no request, or its request has no uid"))
	}
	for _, text := range []string{string(r.UID), string(r.Operation), r.Namespace, r.Name, r.SubResource,
		r.Resource.Group, r.Resource.Version, r.Resource.Resource} {
		if len(text) > maxText {
			return nil, badRequest(fmt.Errorf(
				"the uid of the request, its operation, its resource or the name of its object has more than %d bytes", maxText))
		}
	}
	if r.Object != nil {
		r.Object.Status = nil
	}
	if n := r.values(); n > maxValues {
		return nil, tooLarge("the objects of the AdmissionReview have %d values, and may have %d: "+
			"they have too many list elements or map entries", n, maxValues)
	}
	return r, nil
}

// values returns the number of values that a review decodes.
func (r *request) values() int {
	n := 0
	for _, o := range []*content{r.Object, r.OldObject} {
		if o != nil {
			n += values(o.Spec) + values(o.Status)
		}
	}
	return n
}

// json returns the object, as far as the webhooks read it.
func (o *content) json() []byte {
	all := make([]byte, 0, len(o.Spec)+len(o.Status)+len(`{"spec":,"status":}`))
	for key, value := range map[string][]byte{`"spec":`: o.Spec, `"status":`: o.Status} {
		if value != nil {
			all = append(append(append(all, ','), key...), value...)
		}
	}
	if len(all) == 0 {
		return []byte("{}")
	}
	all[0] = '{'
	return append(all, '}')
}

// errNumber is the error for an integer that is too large, or a quantity that takes too long to
// parse. A schema limits the exponent, but not the number of digits.
var errNumber = errors.New("a number is too large, or a quantity has more than 100 digits or an exponent of more than two")

// decode decodes JSON into obj, and returns it as a tree of maps, lists and simple values too. Parsing a quantity like 1e-999999999 takes
// hours and all memory. The API server calls a mutating webhook before the schema can reject it. So decode checks quantities before it
// parses them.
func decode(raw []byte, obj any) (tree map[string]any, err error) {
	decoder := stdjson.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // A float64 would not show what takes long.
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if takesLong(tree, reflect.TypeOf(obj)) {
		return nil, errNumber
	}
	err = json.Unmarshal(raw, obj)
	mistyped, ok := errors.AsType[*stdjson.UnmarshalTypeError](err)
	switch {
	case !ok:
		return tree, err
	case strings.HasPrefix(mistyped.Value, "number "): // Its digits follow: the integer is too large.
		return nil, errNumber
	}
	return nil, fmt.Errorf("%s must be of type %s, and not %s", mistyped.Field, mistyped.Type, mistyped.Value)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	// quantity matches the quantities that every schema here allows and that are parsed quickly.
	quantity = regexp.MustCompile(`^[-+]?[0-9.]{1,100}([eE][-+]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)
)

// takesLong returns whether a quantity in value, which is to be decoded into a type, takes long to parse.
func takesLong(value any, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for key, value := range value {
			if of := typeOf(t, key); of != nil && takesLong(value, of) {
				return true
			}
		}
	case []any:
		for _, value := range value {
			if t.Kind() == reflect.Slice && takesLong(value, t.Elem()) {
				return true
			}
		}
	default:
		return t == quantityType && !quantity.MatchString(fmt.Sprint(value))
	}
	return false
}

// typeOf returns the type of the value for a key in a map or a struct of type t; nil if there is none.
func typeOf(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	if t.Kind() != reflect.Struct || t == quantityType {
		return nil
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == key && field.IsExported():
			return field.Type
		case name == "" && field.Anonymous:
			if of := typeOf(field.Type, key); of != nil {
				return of
			}
		}
	}
	return nil
}
