package offer

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Funding is what a FLOSS/fund manifest (funding.json v1.0.0) says beyond the
// terms of the offer: who asks for the money, and for which project.
type Funding struct {
	// EntityType is one of EntityTypes, EntityRole one of EntityRoles.
	EntityType, EntityRole string
	Repository             string // the address of the project's source code
	// WellKnown is the address of the list of manifests which shows that the
	// repository's owner knows of this one. It ends in fundingManifestURLs and
	// stands on the repository's host; empty for a repository on the service's
	// own host.
	WellKnown string
	Licenses  []string // 1 to 5 licenses of the project; SPDX identifiers begin with "spdx:"
	Tags      []string // 1 to 10 words for what the project is
}

// fundingManifestURLs ends the address of a list of manifests.
const fundingManifestURLs = "/.well-known/funding-manifest-urls"

// maxFundingID is the longest identifier of a channel in a manifest, in bytes.
const maxFundingID = 32

// FundingID is the identifier of a rail's channel in a manifest.
func FundingID(rail string) string { return "rail-" + rail }

// The words that a manifest may use.
var (
	EntityTypes = []string{"individual", "group", "organisation", "other"}
	EntityRoles = []string{"owner", "steward", "maintainer", "contributor", "other"}
)

// fundingTag is the form of a tag: a letter at both ends.
var fundingTag = regexp.MustCompile(`^[a-z]([a-z0-9]*-?[a-z0-9])*[a-z]$`)

// check finds what the directories of manifests would refuse.
func (f *Funding) check(o *Offer) error {
	if err := f.checkTerms(o); err != nil {
		return err
	}
	if err := f.checkRepository(o.BaseURL); err != nil {
		return err
	}
	if n := len(f.Licenses); n < 1 || n > 5 {
		return fmt.Errorf("%d licenses; name 1 to 5, as in spdx:MIT", n)
	}
	for _, l := range f.Licenses {
		if !fits(l, 2, 64) {
			return fmt.Errorf("the license %q; write an SPDX identifier, as in spdx:MIT", l)
		}
	}
	if n := len(f.Tags); n < 1 || n > 10 {
		return fmt.Errorf("%d tags; name 1 to 10", n)
	}
	for _, tag := range f.Tags {
		if !fits(tag, 2, 32) || !fundingTag.MatchString(tag) {
			return fmt.Errorf("the tag %q; use 2 to 32 lower-case letters, digits and single hyphens, with a letter at both ends", tag)
		}
	}
	return nil
}

func (f *Funding) checkTerms(o *Offer) error {
	switch {
	case !slices.Contains(EntityTypes, f.EntityType):
		return fmt.Errorf("%q is no type of entity; use one of %s", f.EntityType, strings.Join(EntityTypes, ", "))
	case !slices.Contains(EntityRoles, f.EntityRole):
		return fmt.Errorf("%q is no role of an entity; use one of %s", f.EntityRole, strings.Join(EntityRoles, ", "))
	case o.Contact == "":
		return errors.New("a manifest names an e-mail address; set contact")
	case !fits(o.Operator, 2, 250):
		return errors.New("the operator's name must have 2 to 250 bytes; set operator")
	case !fits(o.Name, 1, 250):
		return errors.New("the offer's name must have 1 to 250 bytes; set name")
	case !fits(o.Description, 5, 2000):
		return errors.New("the description must have 5 to 2000 bytes; set description")
	}
	for _, r := range o.Rails {
		if len(FundingID(r.Name())) > maxFundingID {
			return fmt.Errorf("the rail name %q is too long for a manifest; use at most %d characters", r.Name(), maxFundingID-len(FundingID("")))
		}
	}
	return nil
}

// checkRepository checks that a directory can prove the repository's owner.
func (f *Funding) checkRepository(baseURL string) error {
	repository, err := ParseURL(f.Repository)
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	if strings.EqualFold(repository.Host, Host(baseURL)) {
		if f.WellKnown != "" {
			return errors.New("the repository is on the service's own host and needs no list of manifests; leave it out")
		}
		return nil
	}
	if f.WellKnown == "" {
		return fmt.Errorf("the repository is on another host; add the address of its list of manifests, which ends in %s", fundingManifestURLs)
	}
	list, err := ParseURL(f.WellKnown)
	if err != nil {
		return fmt.Errorf("list of manifests: %w", err)
	}
	if !lists(list, repository) {
		return fmt.Errorf("the list of manifests must be on the repository's host and end in %s, at the host's root or below the repository's path", fundingManifestURLs)
	}
	return nil
}

// lists reports whether a list of manifests is the word of a repository's
// owner.
func lists(list, repository *url.URL) bool {
	below, found := strings.CutSuffix(list.Path, fundingManifestURLs)
	return found && list.RawQuery == "" && strings.EqualFold(list.Host, repository.Host) &&
		(below == "" || strings.HasPrefix(below+"/", strings.TrimSuffix(repository.Path, "/")+"/"))
}

// fits reports whether a text has at least low and at most high bytes.
func fits(s string, low, high int) bool { return len(s) >= low && len(s) <= high }
