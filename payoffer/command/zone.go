package command

import (
	"fmt"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // for a machine that has no list of time zones
)

// checkZone refuses a time zone that this machine does not know, for Go takes UTC
// in its place and says nothing: days would be others than the operator's. A value
// that is a path names a file of the zone's rules.
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
