"""Problems and notices for operators."""
