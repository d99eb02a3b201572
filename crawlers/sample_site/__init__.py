"""The sample sites: three small invented web sites, served over loopback HTTP for the demo and the tests."""
