// Package payoffertest holds scriptable stand-ins for the providers that
// cannot run in a test: they speak the recorded shapes of the real ones, listen
// on loopback only, and fail in the ways that the real ones do. Every test of
// the project uses them from here, so that each provider is imitated once.
package payoffertest
