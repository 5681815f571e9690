package cassandra

import (
	"context"
	"log/slog"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// gocqlLogger gives gocql's messages to slog. What gocql calls an error is a warning, since the
// caller gets the error itself; what it calls information is of use when debugging only.
type gocqlLogger struct{ to *slog.Logger }

func (l gocqlLogger) Error(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelWarn, msg, fields)
}

func (l gocqlLogger) Warning(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelWarn, msg, fields)
}

func (l gocqlLogger) Info(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l gocqlLogger) Debug(msg string, fields ...gocql.LogField) {
	l.log(slog.LevelDebug, msg, fields)
}

func (l gocqlLogger) log(level slog.Level, msg string, fields []gocql.LogField) {
	if l.to == nil || !l.to.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields)+1)
	attrs = append(attrs, slog.String("from", "gocql"))
	for _, f := range fields {
		attrs = append(attrs, slog.String(f.Name, f.Value.String()))
	}
	l.to.LogAttrs(context.Background(), level, msg, attrs...)
}
