package report

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMovementRowSign(t *testing.T) {
	column := slices.Index(MovementColumns, "amount")
	for atomic, want := range map[string]string{"4200": "42", "0": "0", "-1": "-0.01"} {
		line := Movement{}
		line.Asset, line.AmountAtomic = "USD", atomic
		row := line.Row(time.Unix(0, 0), "UTC")
		require.Equal(t, want, row[column])
	}
}
