package command

import (
	"fmt"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // for machines without time zones
)

// checkZone refuses a time zone that this machine does not know, because Go would silently
// use UTC and count days differently. A path names a file with the rules of a zone.
func checkZone() error {
	name := strings.TrimPrefix(os.Getenv("TZ"), ":")
	var err error
	if strings.HasPrefix(name, "/") {
		var rules []byte
		if rules, err = os.ReadFile(name); err == nil {
			_, err = time.LoadLocationFromTZData(name, rules)
		}
	} else {
		_, err = time.LoadLocation(name)
	}
	if err != nil {
		return fmt.Errorf("the time zone %.40q of the variable TZ is not known; write for example TZ=Europe/Berlin, or unset it", name)
	}
	return nil
}
