package command

import (
	"fmt"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // for machines without time zones
)

// checkZone refuses a time zone that this machine does not know, because Go would silently
// use UTC and count days differently.
func checkZone() error {
	name := os.Getenv("TZ")
	if _, err := time.LoadLocation(strings.TrimPrefix(name, ":")); err != nil {
		return fmt.Errorf("the time zone %.40q of the variable TZ is not known; write for example TZ=Europe/Berlin, or unset it", name)
	}
	return nil
}
