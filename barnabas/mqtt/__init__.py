"""The MQTT bridge, `barnabas mqtt`: what devices publish becomes records, and records become messages (docs/MQTT.md).

The pure parts (`filters`, `templates`, `mapping`, `settings`, `ledger`, `reconnect`) neither wait nor ask the time.
`link` is a connection to the MQTT broker, `inward` and `outward` are the two directions, `bridge` runs them all.
"""
