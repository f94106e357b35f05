package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
)

// printRoutes prints a stream of routes, as a table or as a JSON array with one route per line.
// Routes before an error are printed too.
func printRoutes(ctx context.Context, w io.Writer, q *queryFlags, path string) error {
	out := bufio.NewWriter(w)
	print := printRouteTable
	if q.json {
		print = printRouteArray
	}
	err := print(ctx, out, q.socket, path)
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return err
}

func printRouteTable(ctx context.Context, w io.Writer, socketPath, path string) error {
	var table *status.RouteTable
	err := socket.Each(ctx, socketPath, path, func(r mirror.RouteInfo) (err error) {
		if table == nil {
			if table, err = status.NewRouteTable(w); err != nil {
				return err
			}
		}
		return table.Write(r)
	})
	if err == nil && table == nil {
		_, err = io.WriteString(w, "no routes\n")
	}
	return err
}

func printRouteArray(ctx context.Context, w io.Writer, socketPath, path string) error {
	separator := "["
	err := socket.Each(ctx, socketPath, path, func(r json.RawMessage) error {
		_, err := io.WriteString(w, separator+string(r))
		separator = ",\n "
		return err
	})
	if err != nil {
		return err
	}
	if separator == "[" {
		_, err = io.WriteString(w, "[]\n")
		return err
	}
	_, err = io.WriteString(w, "]\n")
	return err
}

// verifyRoutes makes the router compare its tables with Linux's and prints the differences.
func verifyRoutes(ctx context.Context, w io.Writer, q *queryFlags) error {
	var v mirror.Verification
	if err := socket.Get(ctx, q.socket, "/verify", &v); err != nil {
		return err
	}
	write := status.WriteVerification
	if q.json {
		write = func(w io.Writer, v mirror.Verification) error { return cli.WriteJSON(w, v) }
	}
	if err := write(w, v); err != nil || v.Different == 0 {
		return err
	}
	return fmt.Errorf("the engines' tables differ from Linux's at %d of %d addresses (routes that change during the comparison count too)", v.Different, v.Addresses)
}
