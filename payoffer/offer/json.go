package offer

import (
	"encoding/json"
	"fmt"
)

// JSON is v as JSON on one line, in which characters special to HTML are escaped. It panics
// if v cannot be encoded.
func JSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T is not JSON: %v; report this as a bug", v, err))
	}
	return text
}
