package payoffer

import (
	"log/slog"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// loadCore writes to the log of one configuration, and when that has ended to the log of the running one: what outlives
// a configuration, such as the ledger or a settlement, still has to be heard.
type loadCore struct {
	zapcore.Core // of the configuration
	app          *App
	fields       []zapcore.Field
}

func (app *App) slogger() *slog.Logger {
	core := loadCore{Core: app.logger.Core(), app: app}
	return slog.New(zapslog.NewHandler(core, zapslog.WithName("pay_offer"), zapslog.AddStacktraceAt(slog.Level(127))))
}

func (l loadCore) current() zapcore.Core {
	if l.app.ctx.Err() == nil {
		return l.Core
	}
	if app := activeApp(); app != nil {
		return app.logger.Core()
	}
	return caddy.Log().Core()
}

// Enabled implements zapcore.Core.
func (l loadCore) Enabled(level zapcore.Level) bool { return l.current().Enabled(level) }

// With implements zapcore.Core.
func (l loadCore) With(fields []zapcore.Field) zapcore.Core {
	return loadCore{l.Core, l.app, append(slices.Clip(l.fields), fields...)}
}

// Check implements zapcore.Core. The core that it adds writes the entry.
func (l loadCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return l.current().With(l.fields).Check(e, to)
}
