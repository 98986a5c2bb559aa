"""Pages for browsers: blocks of `ha_core.present` as HTML, with links, drawings and forms. Texts are always escaped."""
