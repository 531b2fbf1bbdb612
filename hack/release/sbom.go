// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// notInID matches the characters that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// sbom is an SPDX 2.3 document that is being made.
type sbom struct {
	licenses      map[string]string // of the modules, by path
	ids           []string          // of the packages
	packages      []fields
	relationships []fields
}

// relate adds a relationship.
func (s *sbom) relate(from, kind, to string) {
	s.relationships = append(s.relationships, fields{"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

// add adds a package, unless it is there, and returns its identifier. The sum is of SHA-256, or empty.
func (s *sbom) add(name, version, license, purpose, sum, purl string) string {
	id := "SPDXRef-Package-" + notInID.ReplaceAllString(name+"-"+version, "-")
	if slices.Contains(s.ids, id) {
		return id
	}
	p := fields{
		"SPDXID": id, "name": name, "versionInfo": version, "licenseDeclared": license, "licenseConcluded": "NOASSERTION",
		"primaryPackagePurpose": purpose, "downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION", "filesAnalyzed": false,
		"externalRefs": []fields{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}},
	}
	if sum != "" {
		p["checksums"] = []fields{{"algorithm": "SHA256", "checksumValue": sum}}
	}
	s.ids, s.packages = append(s.ids, id), append(s.packages, p)
	return id
}

// addProgram adds a program, and the modules in it.
func (s *sbom) addProgram(r *release, p *program) string {
	id := s.add("glassback-"+p.os+"-"+p.arch, r.version, "Apache-2.0", "APPLICATION", sha256Of(p.data), "pkg:golang/"+mainModule+"@"+r.version)
	s.relate(id, "DEPENDS_ON", s.addModule(standardLibrary, strings.TrimPrefix(p.info.GoVersion, "go")))
	for _, dep := range p.info.Deps {
		s.relate(id, "DEPENDS_ON", s.addModule(dep.Path, dep.Version))
	}
	return id
}

// addModule adds a module.
func (s *sbom) addModule(path, version string) string {
	return s.add(path, version, cmp.Or(s.licenses[path], "NOASSERTION"), "LIBRARY", "", "pkg:golang/"+path+"@"+version)
}

// describe returns the SPDX document with this name of programs, and of their image if digest is not empty.
func (r *release) describe(name, digest string, modules []*module, programs ...*program) ([]byte, error) {
	s := &sbom{licenses: map[string]string{rootsModule: rootsLicense}}
	for _, m := range modules {
		s.licenses[m.path] = m.license
	}
	root, kind := "SPDXRef-DOCUMENT", "DESCRIBES"
	if digest != "" {
		sum := strings.TrimPrefix(digest, "sha256:")
		image := s.add(r.image, r.version, "Apache-2.0", "CONTAINER", sum, "pkg:oci/glassback@"+digest+"?repository_url="+r.image)
		s.relate(root, kind, image)
		root, kind = image, "CONTAINS"
		s.relate(root, kind, s.addModule(rootsModule, r.rootsVersion))
	}
	for _, p := range programs {
		s.relate(root, kind, s.addProgram(r, p))
	}
	return indented(fields{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
		"documentNamespace": fmt.Sprintf("%s/spdx/%s-%s", home, name, r.commit),
		"creationInfo": fields{
			"created": r.date.Format(time.RFC3339), "creators": []string{"Organization: The Glassback Authors", "Tool: hack/release-" + r.version},
		},
		"packages": s.packages, "relationships": s.relationships,
	})
}
